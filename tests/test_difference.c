/* Comparisons of two records: where they first differ, and how much; and records that are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/jsonl.h"
#include "stages/difference.h"
#include "tests/small_record.h"
#include "tests/suite.h"
#include "tests/temporary.h"

/* ---- what a comparison says ---- */

static json_t *difference_of(const struct recipe *a, const struct recipe *b)
{
    char path_a[256], path_b[256];
    json_t *summary = NULL;
    snprintf(path_a, sizeof path_a, "%s", record_of("a.rematch.tar", a));
    snprintf(path_b, sizeof path_b, "%s", record_of("b.rematch.tar", b));
    status st = difference_write(&summary, path_a, path_b, temporary_path("d.rematch.tar"));
    ck_ok(st);
    return summary;
}

static json_t *pass_of(json_t *summary, const char *pass)
{
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(summary, "tensors"), i, t)
    {
        if (!strcmp(json_string_value(json_object_get(t, "pass")), pass))
            return t;
    }
    ck_abort_msg("no pass '%s'", pass);
}

static int64_t number(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "no number '%s'", key);
    return json_integer_value(value);
}

static const char *string(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_string(value), "no text '%s'", key);
    return json_string_value(value);
}

static double exact(json_t *object, const char *key)
{
    double value;
    ck_ok(json_exact_read(&value, object, key, "summary"));
    return value;
}

START_TEST(equal_records_differ_nowhere)
{
    json_t *summary = difference_of(&plain, &plain);
    size_t i;
    json_t *t;
    ck_assert_int_eq(json_array_size(json_object_get(summary, "config")), 0);
    ck_assert_int_eq(json_array_size(json_object_get(summary, "tensors")), 6);
    json_array_foreach(json_object_get(summary, "tensors"), i, t)
    {
        ck_assert_int_gt(number(t, "compared"), 0);
        ck_assert_int_eq(number(t, "compared"), number(t, "identical"));
        ck_assert_int_eq(number(t, "elements"), number(t, "compared") * ROWS * COLS);
        ck_assert(json_is_null(json_object_get(t, "first")));
    }
    ck_assert_int_eq(number(pass_of(summary, "forward"), "compared"), LAYERS * BLOCK_TENSORS);
    json_t *metrics = json_object_get(summary, "metrics");
    ck_assert_int_eq(number(metrics, "common_steps"), STEPS);
    ck_assert_int_eq(number(json_object_get(metrics, "loss"), "equal_steps"), STEPS);
    ck_assert(json_is_null(json_object_get(json_object_get(metrics, "loss"), "first_differing_step")));
    ck_assert_str_eq(string(json_object_get(summary, "members"), "final.safetensors"), "equal");
    json_decref(summary);
}
END_TEST

START_TEST(same_inputs_give_same_bytes)
{
    struct recipe other = plain;
    other.flipped[0] = "forward.layers.0.input";
    char *first, *second;
    size_t first_size, second_size;
    json_decref(difference_of(&plain, &other));
    ck_ok(file_read(temporary_path("d.rematch.tar"), 1 << 24, &first, &first_size));
    json_decref(difference_of(&plain, &other));
    ck_ok(file_read(temporary_path("d.rematch.tar"), 1 << 24, &second, &second_size));
    ck_assert_uint_eq(first_size, second_size);
    ck_assert_mem_eq(first, second, first_size);
    free(first);
    free(second);
}
END_TEST

START_TEST(flipped_activation_is_the_first_divergence)
{
    struct recipe other = plain;
    char name[64];
    snprintf(name, sizeof name, "forward.layers.1.%s", block_tensor_name(TENSOR_MIDDLE));
    other.flipped[0] = name;
    json_t *summary = difference_of(&plain, &other);
    json_t *forward = pass_of(summary, "forward"), *first = json_object_get(forward, "first");
    ck_assert_int_eq(number(forward, "identical"), number(forward, "compared") - 1);
    ck_assert_int_eq(number(forward, "differing"), 1);
    ck_assert_int_eq(number(first, "layer"), 1);
    ck_assert_str_eq(string(first, "tensor"), block_tensor_name(TENSOR_MIDDLE));
    ck_assert_str_eq(string(first, "op"), block_op_name(OP_ATTENTION_DROPOUT));
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(first, "ulp"), 1)), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(first, "first"), 0)), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(first, "first"), 1)), 1);
    ck_assert_int_eq(number(first, "larger"), 1);
    ck_assert(exact(first, "largest") == (double)nextafterf(6, INFINITY) - 6);
    ck_assert_int_eq(number(pass_of(summary, "gradient"), "differing"), 0);
    json_decref(summary);
}
END_TEST

START_TEST(gradients_are_searched_from_the_loss_down)
{
    struct recipe other = plain;
    other.flipped[0] = "gradient.layers.0.input";
    other.flipped[1] = "gradient.lm_head.weight";
    json_t *summary = difference_of(&plain, &other);
    json_t *gradient = pass_of(summary, "gradient");
    ck_assert_int_eq(number(gradient, "differing"), 2);
    ck_assert_str_eq(string(json_object_get(gradient, "first"), "tensor"), "lm_head.weight");
    json_decref(summary);
}
END_TEST

START_TEST(rebuilt_tensor_is_held_against_the_kept_one)
{
    struct recipe other = plain;
    char name[64];
    snprintf(name, sizeof name, "recompute.layers.0.%s", block_tensor_name(TENSOR_QKV));
    other.flipped[0] = name;
    other.rebuilt = true;
    json_t *summary = difference_of(&plain, &other);
    json_t *recompute = pass_of(summary, "recompute"), *first = json_object_get(recompute, "first");
    ck_assert_int_eq(number(recompute, "compared"), LAYERS * BLOCK_TENSORS);
    ck_assert_int_eq(number(recompute, "differing"), 1);
    ck_assert_str_eq(string(first, "stored"), "a");
    ck_assert_str_eq(string(first, "tensor"), block_tensor_name(TENSOR_QKV));
    ck_assert_int_eq(number(pass_of(summary, "forward"), "differing"), 0);
    json_decref(summary);
}
END_TEST

START_TEST(final_weights_and_state_are_told_apart)
{
    struct recipe other = plain;
    other.flipped_final = "v.model.norm.weight";
    json_t *summary = difference_of(&plain, &other);
    ck_assert_int_eq(number(pass_of(summary, "weights"), "differing"), 0);
    ck_assert_int_eq(number(pass_of(summary, "master"), "differing"), 0);
    ck_assert_int_eq(number(pass_of(summary, "v"), "differing"), 1);
    ck_assert_str_eq(string(json_object_get(summary, "members"), "final.safetensors"), "differs");
    json_decref(summary);
}
END_TEST

START_TEST(losses_are_compared_bit_by_bit)
{
    struct recipe other = plain;
    other.loss_step = 5;
    other.loss = 1.0 / 5 + 0.25;
    other.held_out = -0.5;
    json_t *summary = difference_of(&plain, &other);
    json_t *loss = json_object_get(json_object_get(summary, "metrics"), "loss");
    json_t *held_out = json_array_get(json_object_get(summary, "held_out"), 0);
    ck_assert_int_eq(number(loss, "equal_steps"), STEPS - 1);
    ck_assert_int_eq(number(loss, "first_differing_step"), 5);
    ck_assert(exact(loss, "largest") == other.loss - 1.0 / 5);
    ck_assert_int_eq(number(held_out, "equal"), SEQUENCES - 1);
    ck_assert(exact(held_out, "mean") == -0.5 / SEQUENCES);
    ck_assert(exact(held_out, "largest") == 0.5);
    json_decref(summary);
}
END_TEST

START_TEST(loss_that_is_no_number_is_counted)
{
    struct recipe other = plain;
    other.loss_step = STEPS;
    other.loss = NAN;
    json_t *summary = difference_of(&plain, &other);
    json_t *loss = json_object_get(json_object_get(summary, "metrics"), "loss");
    ck_assert_int_eq(number(loss, "equal_steps"), STEPS - 1);
    ck_assert_int_eq(number(loss, "first_differing_step"), STEPS);
    ck_assert_int_eq(number(loss, "not_finite"), 1);
    json_decref(summary);
}
END_TEST

START_TEST(certificates_are_summed_up)
{
    struct recipe other = plain;
    other.rebuilt = true;
    json_t *summary = difference_of(&plain, &other);
    json_t *certificate = json_object_get(summary, "certificate"), *b = json_object_get(certificate, "b");
    ck_assert_int_eq(number(json_object_get(certificate, "a"), "compared"), 0);
    ck_assert_int_eq(number(b, "compared"), 10);
    ck_assert_int_eq(number(b, "mismatched"), 1);
    ck_assert_str_eq(string(json_object_get(b, "first"), "accused"), "recompute");
    ck_assert_str_eq(string(json_object_get(b, "first"), "tensor"), block_tensor_name(TENSOR_MIDDLE));
    json_decref(summary);
}
END_TEST

START_TEST(other_seed_is_a_setting_and_other_batches)
{
    struct recipe other = plain;
    other.seed = 8;
    json_t *summary = difference_of(&plain, &other);
    json_t *config = json_object_get(summary, "config");
    ck_assert_int_eq(json_array_size(config), 1);
    ck_assert_str_eq(string(json_array_get(config, 0), "field"), "seed");
    ck_assert(json_is_false(json_object_get(summary, "same_batches")));
    json_decref(summary);
}
END_TEST

START_TEST(other_micro_batch_is_counted_not_compared)
{
    struct recipe other = plain;
    other.rows = 2 * ROWS;
    json_t *summary = difference_of(&plain, &other);
    json_t *forward = pass_of(summary, "forward");
    ck_assert_int_eq(number(forward, "compared"), 0);
    ck_assert_int_eq(number(forward, "other_shape"), LAYERS * BLOCK_TENSORS);
    json_decref(summary);
}
END_TEST

static void refused_files(const char *a, const char *b, const char *reason)
{
    const char *out = temporary_path("refused.rematch.tar");
    json_t *summary = NULL;
    ck_assert_int_eq(difference_write(&summary, a, b, out), ERR_INPUT);
    ck_said(reason);
    ck_said(b);
    ck_assert(!file_exists(out));
    ck_assert_ptr_null(summary);
}

static void refused(const struct recipe *a, const struct recipe *b, const char *reason)
{
    char path_a[256];
    snprintf(path_a, sizeof path_a, "%s", record_of("a.rematch.tar", a));
    refused_files(path_a, record_of("b.rematch.tar", b), reason);
}

START_TEST(other_model_is_refused)
{
    struct recipe other = plain;
    other.hidden = 64;
    refused(&plain, &other, "hidden is 32");
}
END_TEST

START_TEST(strange_tensor_is_refused)
{
    struct recipe other = plain;
    other.stranger = "forward.layers.9.input";
    refused(&plain, &other, "forward.layers.9.input");
}
END_TEST

START_TEST(damaged_record_is_refused)
{
    char *bytes;
    size_t size;
    const char *b = record_of("b.rematch.tar", &plain);
    ck_ok(file_read(b, 1 << 24, &bytes, &size));
    bytes[size / 2] ^= 1;
    ck_ok(file_write(b, bytes, size));
    free(bytes);
    refused_files(record_of("a.rematch.tar", &plain), temporary_path("b.rematch.tar"), "b.rematch.tar");
}
END_TEST

START_TEST(difference_over_one_of_its_records_is_refused)
{
    char a[256], b[256], *before, *after;
    size_t before_size, after_size;
    json_t *summary = NULL;
    snprintf(a, sizeof a, "%s", record_of("a.rematch.tar", &plain));
    snprintf(b, sizeof b, "%s", record_of("b.rematch.tar", &plain));
    ck_ok(file_read(b, 1 << 24, &before, &before_size));
    ck_assert_int_eq(difference_write(&summary, a, b, b), ERR_USAGE);
    ck_assert_int_eq(difference_write(&summary, b, a, b), ERR_USAGE);
    ck_said(b);
    ck_ok(file_read(b, 1 << 24, &after, &after_size));
    ck_assert_uint_eq(after_size, before_size);
    ck_assert_mem_eq(after, before, before_size);
    free(before);
    free(after);
}
END_TEST

START_TEST(difference_record_is_no_run)
{
    json_decref(difference_of(&plain, &plain));
    refused_files(temporary_path("a.rematch.tar"), temporary_path("d.rematch.tar"), "config.json");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {equal_records_differ_nowhere, 1},
        {same_inputs_give_same_bytes, 1},
        {flipped_activation_is_the_first_divergence, 1},
        {gradients_are_searched_from_the_loss_down, 1},
        {rebuilt_tensor_is_held_against_the_kept_one, 1},
        {final_weights_and_state_are_told_apart, 1},
        {losses_are_compared_bit_by_bit, 1},
        {loss_that_is_no_number_is_counted, 1},
        {certificates_are_summed_up, 1},
        {other_seed_is_a_setting_and_other_batches, 1},
        {other_micro_batch_is_counted_not_compared, 1},
        {other_model_is_refused, 1},
        {strange_tensor_is_refused, 1},
        {damaged_record_is_refused, 1},
        {difference_over_one_of_its_records_is_refused, 1},
        {difference_record_is_no_run, 1},
    };
    return suite_run("difference", tests, COUNT(tests));
}
