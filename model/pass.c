#include "model/pass.h"

uint64_t pass_draw(const struct pass *pass, int call)
{
    struct random_site where = pass->key;
    where.seed = pass->draw_seed;
    where.layer = (uint32_t)pass->layer;
    where.site = SITE_REDUCTION_ORDER;
    uint64_t phase = pass->redraw ? (uint64_t)pass->phase : PHASE_FORWARD;
    return philox_u64(&where, (uint64_t)pass->micro_batch << 16 | phase << 8 | (uint64_t)call);
}
