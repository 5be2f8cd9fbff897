/* multiplicity.c - all tests of a study at once. */
#include <math.h>
#include <stdlib.h>

#include "stages/holm.h"
#include "stages/report/evidence.h"
#include "stages/report/policy.h"

const char *test_family_name(enum test_family f)
{
    static const char *const names[TEST_FAMILIES] = {"DIFFERS", "AGREES", "DIVERGED or DRIFTING", "EQUIVALENT"};
    return names[f];
}

/* A judgement with tests, and what it is about: the same thing is compared more than once where r0 is the baseline, and
 * where a policy has several runs. It is one test then: the first. */
struct slot {
    struct contrast *contrast;
    struct judgement *judgement;
    enum gap_metric metric;
    int about[2], first;
};

static int add_slots(struct slot *slot, int count, const struct report *r, struct contrast *c, int index, bool policy)
{
    for (int m = 0; c->other >= 0 && m < GAP_METRICS; m++) {
        struct judgement *j = policy ? &c->metric[m].policy : &c->metric[m].pair;
        if (isnan(j->outside.p))
            continue;
        struct slot s = {
            c, j, m, {policy ? r->run[c->other].family : c->other, policy ? r->run[index].family : index}, count};
        for (int i = count - 1; i >= 0; i--)
            if (slot[i].metric == s.metric && slot[i].about[0] == s.about[0] && slot[i].about[1] == s.about[1])
                s.first = i;
        slot[count++] = s;
    }
    return count;
}

static int collect(struct slot *slot, struct report *r, bool policy)
{
    int count = 0;
    for (int i = 0; i < r->runs; i++) {
        count = add_slots(slot, count, r, &r->run[i].against, i, policy);
        count = add_slots(slot, count, r, &r->run[i].against_baseline, i, policy);
    }
    return count;
}

/* The tests of a judgement for this family; how many. */
static int tests_of(struct evidence *test[2], struct judgement *j, enum test_family f)
{
    test[0] = f == TESTS_AGREES || f == TESTS_EQUIVALENT ? &j->inside : &j->outside;
    test[1] = &j->drift.grows;
    return f == TESTS_DIVERGED && !isnan(j->drift.grows.p) ? 2 : 1;
}

static status correct_family(struct multiplicity *out, struct slot *slot, int slots, enum test_family f)
{
    struct evidence **test = calloc(2 * (size_t)slots + 1, sizeof *test), *own[2], *first[2];
    if (!test)
        return FAIL(ERR_MEMORY, "no memory for %d tests", 2 * slots);
    int tests = 0;
    for (int i = 0; i < slots; i++)
        if (slot[i].first == i) {
            int count = tests_of(own, slot[i].judgement, f);
            for (int k = 0; k < count; k++)
                test[tests++] = own[k];
        }
    status st = holm_adjust(test, tests);
    *out = (struct multiplicity){.tests = tests};
    for (int i = 0; i < tests; i++) {
        out->claims += test[i]->p <= VERDICT_LEVEL;
        out->survive += test[i]->adjusted <= VERDICT_LEVEL;
    }
    for (int i = 0; i < slots; i++) {
        int count = tests_of(own, slot[i].judgement, f), known = tests_of(first, slot[slot[i].first].judgement, f);
        for (int k = 0; k < count && k < known; k++) {
            own[k]->adjusted = fmax(own[k]->p, first[k]->adjusted);
            own[k]->tests = tests;
        }
    }
    free(test);
    return st;
}

static void note_pairs(struct slot *slot, int slots)
{
    for (int i = 0; i < slots; i++) {
        struct judgement *j = slot[i].judgement;
        bool agrees = j->verdict == VERDICT_AGREES;
        const struct evidence *e = agrees ? &j->inside : &j->outside;
        if ((agrees || j->verdict == VERDICT_DIFFERS) && e->adjusted > VERDICT_LEVEL)
            verdict_note(j, "alone (p = %.2g), but not as one of %d tests (Holm: p = %.2g)", e->p, e->tests,
                         e->adjusted);
    }
}

static void decide_policies(struct slot *slot, int slots)
{
    for (int i = 0; i < slots; i++) {
        verdict_policy_decide(slot[i].judgement, slot[i].contrast->metric[slot[i].metric].margin);
        policy_explain(slot[i].contrast, slot[i].metric);
    }
}

status evidence_correct(struct report *r)
{
    status st = OK;
    struct slot *slot = calloc((size_t)r->runs * 2 * GAP_METRICS + 1, sizeof *slot);
    if (!slot)
        return FAIL(ERR_MEMORY, "no memory for the tests of %d runs", r->runs);
    int count = collect(slot, r, false);
    TRY_DONE(correct_family(&r->multiplicity[TESTS_DIFFERS], slot, count, TESTS_DIFFERS));
    TRY_DONE(correct_family(&r->multiplicity[TESTS_AGREES], slot, count, TESTS_AGREES));
    note_pairs(slot, count);
    count = collect(slot, r, true);
    TRY_DONE(correct_family(&r->multiplicity[TESTS_DIVERGED], slot, count, TESTS_DIVERGED));
    TRY_DONE(correct_family(&r->multiplicity[TESTS_EQUIVALENT], slot, count, TESTS_EQUIVALENT));
    decide_policies(slot, count);
done:
    free(slot);
    return st;
}
