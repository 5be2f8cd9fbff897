/* The certificate: what it must catch, whom it accuses, and that it survives its file. */
#include <math.h>
#include <stdlib.h>

#include "tests/small_model.h"
#include "tests/suite.h"

/* ---- planted bit flips ---- */

/* Flips one bit of one tensor as it is made (or, for INPUT, as the rebuild finds it). */
struct flipper {
    struct observer observer;
    enum pass_phase phase;
    int layer;
    enum block_tensor tensor;
    int64_t row, col;
    int bit;
    int flips;
};

static status flip(struct observer *self, const struct pass *pass, enum block_tensor t, const struct view *view)
{
    struct flipper *f = (struct flipper *)self;
    if (pass->phase != f->phase || pass->layer != f->layer || t != f->tensor || f->flips)
        return OK;
    unsigned char *element = view_at(view, f->row % view->rows, f->col % view->cols);
    element[f->bit / 8 % (int)dtype_bytes(view->type)] ^= (unsigned char)(1u << f->bit % 8);
    f->flips++;
    return OK;
}

static struct flipper flipper_of(enum pass_phase phase, int layer, enum block_tensor t, int i)
{
    return (struct flipper){.observer = {.seen = flip},
                            .phase = phase,
                            .layer = layer,
                            .tensor = t,
                            .row = 7 * i,
                            .col = 11 * i,
                            .bit = i % 16};
}

/* One step with a flip; the first event's place and accused. */
static void check_flip(struct recompute_policy policy, enum pass_phase phase, int layer, enum block_tensor t, int i,
                       enum accused accused)
{
    struct decoder_options o = small_options();
    o.recompute = policy;
    struct small_model s;
    small_open(&s, &o);
    struct flipper f = flipper_of(phase, layer, t, i);
    decoder_observe(s.decoder, &f.observer, true);
    small_step(&s, 1);
    ck_assert_int_eq(f.flips, 1);
    ck_assert_msg(s.certificate->event_count == 1, "%s of layer %d, bit %d: %d events", block_tensor_name(t), layer,
                  f.bit, s.certificate->event_count);
    const struct certificate_event *e = &s.certificate->event[0];
    ck_assert_int_eq(e->layer, layer);
    ck_assert_str_eq(block_tensor_name(e->tensor), block_tensor_name(t));
    ck_assert_str_eq(accused_name(e->accused), accused_name(accused));
    ck_assert_int_eq(e->tiles_differing, 1);
    ck_assert_uint_ge(certificate_at(s.certificate, layer, t)->mismatched, 1);
    small_close(&s);
}

/* Tensors that the rebuild of a chunk's last layer makes. */
static const enum block_tensor made[] = {TENSOR_NORM1,     TENSOR_RSTD1, TENSOR_QKV_RAW,   TENSOR_QKV,
                                         TENSOR_ATTENTION, TENSOR_LSE,   TENSOR_PROJECTED, TENSOR_MIDDLE,
                                         TENSOR_NORM2,     TENSOR_RSTD2, TENSOR_GATE_UP,   TENSOR_ACTIVATED};
enum { MADE = COUNT(made), BITS = 16 };

START_TEST(flip_in_recompute_is_caught_and_recompute_accused)
{
    check_flip(small_policy("full", "block", 3, NULL, NULL), PHASE_RECOMPUTE, _i % 3, made[_i % MADE], _i / MADE,
               ACCUSED_RECOMPUTE);
}
END_TEST

/* The rest of the forward follows the flipped value; the recompute does not, and the witness sides with it. */
START_TEST(flip_in_forward_is_caught_and_forward_accused)
{
    check_flip(small_policy("full", "block", 3, NULL, NULL), PHASE_FORWARD, _i % 3, made[_i % MADE], _i / MADE,
               ACCUSED_FORWARD);
}
END_TEST

START_TEST(flip_in_stored_input_is_caught_and_storage_accused)
{
    check_flip(small_policy("full", "block", 3, NULL, NULL), PHASE_RECOMPUTE, _i % 3, TENSOR_INPUT, _i,
               ACCUSED_STORED_INPUT);
}
END_TEST

START_TEST(flip_inside_uniform_chunk_is_caught_in_inner_layers)
{
    static const enum block_tensor inner[] = {TENSOR_DOWN, TENSOR_OUTPUT, TENSOR_MIDDLE, TENSOR_QKV};
    check_flip(small_policy("full", "uniform", 3, NULL, NULL), PHASE_RECOMPUTE, _i % 2, inner[_i % 4], _i,
               ACCUSED_RECOMPUTE);
}
END_TEST

START_TEST(flip_in_selective_rebuild_is_caught)
{
    static const enum block_tensor dropped[] = {TENSOR_NORM1, TENSOR_RSTD1, TENSOR_ATTENTION, TENSOR_LSE,
                                                TENSOR_NORM2, TENSOR_RSTD2, TENSOR_GATE_UP,   TENSOR_ACTIVATED};
    check_flip(small_policy("selective", NULL, -1, "core_attn,mlp,layernorm", NULL), PHASE_RECOMPUTE, _i % SMALL_LAYERS,
               dropped[_i % 8], _i, ACCUSED_RECOMPUTE);
}
END_TEST

/* The element comparison finds exactly the planted bit. */
START_TEST(flip_is_measured_element_by_element)
{
    struct decoder_options o = small_options();
    o.recompute = small_policy("full", "block", 2, NULL, NULL);
    struct small_model s;
    small_open(&s, &o);
    struct flipper f = flipper_of(PHASE_RECOMPUTE, 1, TENSOR_ACTIVATED, 16); /* bit 0: one ULP */
    decoder_observe(s.decoder, &f.observer, true);
    small_step(&s, 1);
    const struct comparison *c = &certificate_at(s.certificate, 1, TENSOR_ACTIVATED)->values;
    ck_assert_uint_eq(c->elements, 2 * SMALL_TOKENS * 48);
    ck_assert_uint_eq(c->differing, 1);
    ck_assert_uint_eq(c->ulp[1], 1);
    ck_assert_uint_eq(c->first_differing, (uint64_t)(7 * 16 % (2 * SMALL_TOKENS)) * 48 + 11 * 16 % 48);
    small_close(&s);
}
END_TEST

/* ---- an arithmetic of the recompute's own ---- */

START_TEST(random_recompute_arithmetic_is_caught)
{
    struct decoder_options o = small_options();
    o.recompute = small_policy("full", "block", 5, NULL, NULL);
    o.dial.recompute = ARITHMETIC_RANDOM;
    o.storage = F32;
    struct small_model s;
    small_open(&s, &o);
    small_step(&s, 1);
    small_accused(&s, 1, 0, "gemm");
    small_close(&s);
}
END_TEST

/* ---- the file ---- */

START_TEST(certificate_survives_its_file)
{
    struct small_model s;
    small_run_fault(&s, BF16, "rng-redrawn", small_policy("full", "block", 3, NULL, NULL), 2);
    void *bytes, *again;
    size_t size, size_again;
    struct certificate *copy;
    ck_ok(certificate_write(s.certificate, &bytes, &size));
    ck_ok(certificate_read(&copy, "copy", bytes, size));
    ck_ok(certificate_write(copy, &again, &size_again));
    ck_assert_uint_eq(size, size_again);
    ck_assert_mem_eq(bytes, again, size);
    certificate_free(copy);
    for (size_t cut = 0; cut < size; cut += 97)
        ck_assert_int_eq(certificate_read(&copy, "cut", bytes, cut), ERR_INPUT);
    ((char *)bytes)[7] = 1; /* a version that counted no magnitudes */
    ck_assert_int_eq(certificate_read(&copy, "old", bytes, size), ERR_INPUT);
    ck_said("not a certificate of this version");
    free(bytes);
    free(again);
    small_close(&s);
}
END_TEST

/* ---- merging the ranks' parts ---- */

/* A half of a run's global batch, as one of two ranks has it. */
static struct certificate *half_of_a_run(int rank, const char *fault, int steps)
{
    enum { B = 1, HALF = SMALL_SEQUENCES / 2 };
    struct decoder_options o = small_options();
    o.recompute = small_policy("full", "block", 3, NULL, NULL);
    o.micro_batch = B;
    o.groups = 1;
    o.rank = rank;
    ck_ok(fault_parse(&o.fault, fault));
    struct small_model s;
    small_open(&s, &o);
    for (int step = 1; step <= steps; step++)
        small_part_of_step(&s, step, rank * HALF, HALF);
    decoder_close(s.decoder);
    return s.certificate;
}

static struct certificate *whole_run(const char *fault, int steps)
{
    struct decoder_options o = small_options();
    o.recompute = small_policy("full", "block", 3, NULL, NULL);
    o.micro_batch = 1;
    ck_ok(fault_parse(&o.fault, fault));
    struct small_model s;
    small_open(&s, &o);
    for (int step = 1; step <= steps; step++)
        small_step(&s, step);
    decoder_close(s.decoder);
    return s.certificate;
}

static void check_same_counts(const struct certificate *a, const struct certificate *b)
{
    for (int i = 0; i < SMALL_LAYERS * BLOCK_TENSORS; i++) {
        const struct certificate_cell *x = &a->cell[i], *y = &b->cell[i];
        ck_assert_uint_eq(x->compared, y->compared);
        ck_assert_uint_eq(x->mismatched, y->mismatched);
        ck_assert_uint_eq(x->values.elements, y->values.elements);
        ck_assert_uint_eq(x->values.differing, y->values.differing);
        ck_assert_uint_eq(x->values.first_differing, y->values.first_differing);
        ck_assert_mem_eq(x->values.ulp, y->values.ulp, sizeof x->values.ulp);
        ck_assert_double_eq(x->values.largest, y->values.largest);
        ck_assert_double_le(fabs(x->values.sum_dd - y->values.sum_dd), 1e-12 * x->values.sum_dd);
    }
    ck_assert_int_eq(a->step_count, b->step_count);
    ck_assert_mem_eq(a->step, b->step, (size_t)a->step_count * sizeof *a->step);
}

/* What one rank would have filed: counters, lines, and events in their order, each with its rank. */
START_TEST(merged_parts_are_the_certificate_of_one_rank)
{
    struct certificate *one = whole_run("rng-redrawn", 2), *first = half_of_a_run(0, "rng-redrawn", 2);
    struct certificate *second = half_of_a_run(1, "rng-redrawn", 2);
    ck_ok(certificate_merge(first, second));
    check_same_counts(one, first);
    ck_assert_int_eq(one->event_count, 2 * SMALL_SEQUENCES * 3);
    ck_assert_int_eq(first->event_count, one->event_count);
    ck_assert_uint_eq(first->event_total, one->event_total);
    for (int i = 0; i < one->event_count; i++) {
        struct certificate_event e = first->event[i];
        ck_assert_int_eq(e.rank, e.micro_batch >= SMALL_SEQUENCES / 2);
        e.rank = 0;
        ck_assert_mem_eq(&e, &one->event[i], sizeof e);
    }
    certificate_free(one);
    certificate_free(first);
    certificate_free(second);
}
END_TEST

START_TEST(mismatch_of_one_rank_names_it_in_the_merged_one)
{
    struct certificate *first = half_of_a_run(0, "rng-redrawn:rank=1", 1);
    struct certificate *second = half_of_a_run(1, "rng-redrawn:rank=1", 1);
    ck_assert_ptr_null(certificate_first(first));
    ck_ok(certificate_merge(first, second));
    const struct certificate_event *e = certificate_first(first);
    ck_assert(e->rank == 1 && e->step == 1 && e->micro_batch == SMALL_SEQUENCES / 2 && e->layer == 0);
    ck_assert_uint_eq(certificate_total(first).mismatched, certificate_total(second).mismatched);
    ck_assert_uint_eq(certificate_total(first).compared, 2 * certificate_total(second).compared);
    certificate_free(first);
    certificate_free(second);
}
END_TEST

/* A certificate with an event of each step in `steps`, and its line. */
static struct certificate *made_of(int rank, const int64_t *steps, int count)
{
    struct certificate *c;
    ck_ok(certificate_new(&c, SMALL_LAYERS, false));
    for (int i = 0; i < count; i++) {
        const struct certificate_step line = {steps[i], 10, 2, 1};
        ck_ok(certificate_add_step(c, &line));
        if (c->event_count < CERTIFICATE_EVENTS)
            c->event[c->event_count++] = (struct certificate_event){.step = steps[i], .rank = rank};
        c->event_total++;
    }
    return c;
}

START_TEST(lines_of_steps_that_only_one_part_has_are_kept)
{
    struct certificate *a = made_of(0, (const int64_t[]){1, 3, 4}, 3), *b = made_of(1, (const int64_t[]){2, 3, 7}, 3);
    ck_ok(certificate_merge(a, b));
    static const int64_t steps[] = {1, 2, 3, 4, 7};
    ck_assert_int_eq(a->step_count, COUNT(steps));
    for (int i = 0; i < COUNT(steps); i++) {
        uint64_t parts = steps[i] == 3 ? 2 : 1;
        ck_assert_int_eq(a->step[i].step, steps[i]);
        ck_assert(a->step[i].compared == 10 * parts && a->step[i].mismatched == 2 * parts &&
                  a->step[i].expected == parts);
    }
    certificate_free(a);
    certificate_free(b);
}
END_TEST

/* Of twice as many events as are kept, the first are kept, and all are counted. */
START_TEST(first_events_of_both_parts_are_kept)
{
    enum { MANY = CERTIFICATE_EVENTS + 5 };
    int64_t even[MANY], odd[MANY];
    for (int i = 0; i < MANY; i++) {
        even[i] = 2 * i + 2;
        odd[i] = 2 * i + 1;
    }
    struct certificate *a = made_of(0, even, MANY), *b = made_of(1, odd, MANY);
    ck_ok(certificate_merge(a, b));
    ck_assert_int_eq(a->event_count, CERTIFICATE_EVENTS);
    ck_assert_uint_eq(a->event_total, 2 * MANY);
    for (int i = 0; i < CERTIFICATE_EVENTS; i++)
        ck_assert(a->event[i].step == i + 1 && a->event[i].rank == (i + 1) % 2);
    certificate_free(a);
    certificate_free(b);
}
END_TEST

START_TEST(parts_of_different_runs_are_not_merged)
{
    struct certificate *a = made_of(0, (const int64_t[]){1}, 1), *deeper, *wider;
    ck_ok(certificate_new(&deeper, SMALL_LAYERS + 1, false));
    ck_ok(certificate_new(&wider, SMALL_LAYERS, true));
    ck_assert_int_eq(certificate_merge(a, deeper), ERR_ARGUMENT);
    ck_assert_int_eq(certificate_merge(a, wider), ERR_ARGUMENT);
    ck_said("parts of different runs");
    ck_assert(a->step_count == 1 && a->event_count == 1);
    certificate_free(a);
    certificate_free(deeper);
    certificate_free(wider);
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {flip_in_recompute_is_caught_and_recompute_accused, MADE * BITS},
        {flip_in_forward_is_caught_and_forward_accused, MADE},
        {flip_in_stored_input_is_caught_and_storage_accused, BITS},
        {flip_inside_uniform_chunk_is_caught_in_inner_layers, BITS},
        {flip_in_selective_rebuild_is_caught, 2 * BITS},
        {flip_is_measured_element_by_element, 1},
        {random_recompute_arithmetic_is_caught, 1},
        {certificate_survives_its_file, 1},
        {merged_parts_are_the_certificate_of_one_rank, 1},
        {mismatch_of_one_rank_names_it_in_the_merged_one, 1},
        {lines_of_steps_that_only_one_part_has_are_kept, 1},
        {first_events_of_both_parts_are_kept, 1},
        {parts_of_different_runs_are_not_merged, 1},
    };
    return suite_run("certificate", tests, COUNT(tests));
}
