/* The model as numbers: presets, parameters in one flat array, Hugging Face names, activations. */
#include <math.h>
#include <string.h>

#include "model/shape.h"
#include "tests/suite.h"

static struct model_shape preset(const char *name)
{
    struct model_shape s;
    ck_ok(shape_preset(&s, name));
    return s;
}

/* Sizes counted by hand from the layer formula: 2H + (H + 2KV)H + HH + 3FH, and the tables. */
static const struct {
    const char *name;
    int64_t block, outside;
} sizes[] = {
    {"tiny", 64 + 64 * 32 + 32 * 32 + 3 * 64 * 32, 2 * 256 * 32 + 32},
    {"demo", 128 + 128 * 64 + 64 * 64 + 3 * 192 * 64, 256 * 64 + 64},
    {"study", 256 + 256 * 128 + 128 * 128 + 3 * 384 * 128, 256 * 128 + 128},
    {"code-3b", 5120 + 7680L * 2560 + 2560L * 2560 + 3 * 6912L * 2560, 2 * 50368L * 2560 + 2560},
};

START_TEST(preset_has_the_size_that_its_formula_gives)
{
    struct model_shape s = preset(sizes[_i].name);
    ck_assert_int_eq(shape_parameter_elements(&s), s.layers * sizes[_i].block + sizes[_i].outside);
    ck_ok(shape_check(&s));
}
END_TEST

START_TEST(preset_of_the_migrated_model_is_what_its_owners_train)
{
    struct model_shape s = preset("code-3b");
    ck_assert_int_eq(s.layers, 32);
    ck_assert_int_eq(s.hidden, 2560);
    ck_assert_int_eq(s.sequence, 16384);
    ck_assert_int_eq(shape_head_dim(&s), 128);
    ck_assert(s.hidden_dropout == 0.1f);
    ck_assert(!s.tied);
}
END_TEST

START_TEST(unknown_preset_names_those_there_are)
{
    struct model_shape s;
    ck_assert_int_eq(shape_preset(&s, "huge"), ERR_USAGE);
    ck_said("'huge'");
    ck_said("tiny, demo, study and code-3b");
}
END_TEST

/* Every parameter begins at a multiple of 64 behind the one before, and the last one ends the array. */
START_TEST(parameters_follow_each_other_without_overlap)
{
    struct model_shape s = preset(sizes[_i].name);
    int64_t end = 0;
    for (int i = 0; i < shape_parameter_count(&s); i++) {
        struct parameter p = shape_parameter(&s, i);
        ck_assert_int_eq(p.offset, (end + 63) / 64 * 64);
        ck_assert_int_eq(shape_parameter_index(&s, p.kind, p.layer), i);
        end = p.offset + p.rows * p.cols;
    }
    ck_assert_int_eq(shape_elements(&s), (end + 63) / 64 * 64);
}
END_TEST

START_TEST(tied_model_has_no_head)
{
    struct model_shape s = preset("tiny");
    int untied = shape_parameter_count(&s);
    ck_assert_int_eq(shape_parameter(&s, untied - 1).kind, PARAMETER_HEAD);
    int64_t elements = shape_elements(&s);
    s.tied = true;
    ck_assert_int_eq(shape_parameter_count(&s), untied - 1);
    ck_assert_int_eq(shape_parameter(&s, untied - 2).kind, PARAMETER_FINAL_NORM);
    ck_assert_int_eq(elements - shape_elements(&s), 256 * 32);
}
END_TEST

START_TEST(only_matrices_decay_and_only_norms_begin_at_one)
{
    struct model_shape s = preset("tiny");
    for (int i = 0; i < shape_parameter_count(&s); i++) {
        struct parameter p = shape_parameter(&s, i);
        bool norm = p.kind == PARAMETER_INPUT_NORM || p.kind == PARAMETER_POST_NORM || p.kind == PARAMETER_FINAL_NORM;
        bool residual = p.kind == PARAMETER_PROJECTION || p.kind == PARAMETER_DOWN;
        ck_assert_int_eq(p.decay, !norm);
        ck_assert(p.init_std == (norm ? 0 : residual ? 0.02f / sqrtf(8) : 0.02f));
    }
}
END_TEST

static const char *const layer_1_names[] = {
    "model.layers.1.input_layernorm.weight",  "model.layers.1.self_attn.q_proj.weight",
    "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
    "model.layers.1.self_attn.o_proj.weight", "model.layers.1.post_attention_layernorm.weight",
    "model.layers.1.mlp.gate_proj.weight",    "model.layers.1.mlp.up_proj.weight",
    "model.layers.1.mlp.down_proj.weight",
};

/* The pieces of a fused parameter cover its rows in order; a layer has Hugging Face's nine tensors. */
START_TEST(hugging_face_tensors_cover_each_parameter)
{
    struct model_shape s = preset("tiny");
    int seen = 0;
    for (int i = 0; i < shape_parameter_count(&s); i++) {
        struct parameter p = shape_parameter(&s, i);
        int64_t next = 0, row, rows;
        char name[96];
        for (int k = 0; k < shape_hf_count(&s, i); k++) {
            shape_hf_tensor(&s, i, k, name, &row, &rows);
            ck_assert_int_eq(row, next);
            next = row + rows;
            if (p.layer == 1)
                ck_assert_str_eq(name, layer_1_names[seen++]);
        }
        ck_assert_int_eq(next, p.rows);
    }
    ck_assert_int_eq(seen, 9);
}
END_TEST

START_TEST(hugging_face_names_outside_blocks)
{
    struct model_shape s = preset("tiny");
    static const struct {
        enum parameter_kind kind;
        const char *name;
    } expected[] = {{PARAMETER_EMBEDDING, "model.embed_tokens.weight"},
                    {PARAMETER_FINAL_NORM, "model.norm.weight"},
                    {PARAMETER_HEAD, "lm_head.weight"}};
    for (int i = 0; i < COUNT(expected); i++) {
        char name[96];
        int64_t row, rows;
        shape_hf_tensor(&s, shape_parameter_index(&s, expected[i].kind, -1), 0, name, &row, &rows);
        ck_assert_str_eq(name, expected[i].name);
    }
}
END_TEST

/* What does not fit, and the field that the message must begin with. */
static const struct {
    size_t field;
    int value;
    const char *named;
} misfits[] = {
    {offsetof(struct model_shape, layers), 0, "layers 0"},
    {offsetof(struct model_shape, hidden), -1, "hidden -1"},
    {offsetof(struct model_shape, heads), 3, "heads 3: must divide hidden 32"},
    {offsetof(struct model_shape, heads), 32, "heads 32: hidden 32 gives heads of 1 columns"},
    {offsetof(struct model_shape, kv_heads), 3, "kv_heads 3: must divide heads 4"},
    {offsetof(struct model_shape, vocab), 1 << 23, "vocab 8388608"},
    {offsetof(struct model_shape, sequence), 0, "sequence 0"},
    {offsetof(struct model_shape, ffn), 0, "ffn 0"},
};

START_TEST(shape_that_does_not_fit_is_refused_by_field)
{
    struct model_shape s = preset("tiny");
    memcpy((char *)&s + misfits[_i].field, &misfits[_i].value, sizeof(int));
    ck_assert_int_eq(shape_check(&s), ERR_USAGE);
    ck_said_first(misfits[_i].named);
}
END_TEST

START_TEST(dropout_must_leave_something)
{
    struct model_shape s = preset("tiny");
    s.hidden_dropout = 0;
    ck_ok(shape_check(&s));
    s.hidden_dropout = 1;
    ck_assert_int_eq(shape_check(&s), ERR_USAGE);
    s.hidden_dropout = NAN;
    ck_assert_int_eq(shape_check(&s), ERR_USAGE);
}
END_TEST

/* tiny, B = 3, T = 5: H 32, KV 16, F 64. */
START_TEST(block_tensors_have_their_shapes)
{
    static const int64_t cols[BLOCK_TENSORS] = {32, 32, 1, 64, 64, 32, 5, 32, 32, 32, 1, 128, 64, 32, 32};
    struct model_shape s = preset("tiny");
    for (int t = 0; t < BLOCK_TENSORS; t++) {
        struct view v = block_tensor_view(&s, t, 3, 5, BF16);
        bool statistic = t == TENSOR_RSTD1 || t == TENSOR_RSTD2 || t == TENSOR_LSE;
        ck_assert_int_eq(v.cols, cols[t]);
        ck_assert_int_eq(v.rows, t == TENSOR_LSE ? 12 : 15);
        ck_assert_int_eq(v.type, statistic ? F32 : BF16);
        ck_assert_int_eq(block_tensor_view(&s, t, 3, 5, F64).type, F64);
        ck_assert_int_eq(block_tensor_by_head(t), t == TENSOR_LSE);
    }
}
END_TEST

/* Tensors stand in the order in which ops make them: the certificate's "first op that differs" relies on it. */
START_TEST(block_tensors_follow_the_order_of_their_ops)
{
    ck_assert_int_eq(block_tensor_op(TENSOR_INPUT), OP_STORED_INPUT);
    for (int t = TENSOR_NORM1; t + 1 < BLOCK_TENSORS; t++)
        ck_assert_int_le(block_tensor_op(t), block_tensor_op(t + 1));
    ck_assert_int_eq(block_tensor_op(TENSOR_OUTPUT), OP_MLP_DROPOUT);
    ck_assert_str_eq(block_op_family(block_tensor_op(TENSOR_MIDDLE)), "dropout");
    ck_assert_str_eq(block_op_family(OP_STORED_INPUT), "stored");
    ck_assert_str_eq(block_op_name(OP_ATTENTION_DROPOUT), "attention_dropout");
    ck_assert_str_eq(block_tensor_name(TENSOR_QKV_RAW), "qkv_raw");
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {preset_has_the_size_that_its_formula_gives, COUNT(sizes)},
        {preset_of_the_migrated_model_is_what_its_owners_train, 1},
        {unknown_preset_names_those_there_are, 1},
        {parameters_follow_each_other_without_overlap, COUNT(sizes)},
        {tied_model_has_no_head, 1},
        {only_matrices_decay_and_only_norms_begin_at_one, 1},
        {hugging_face_tensors_cover_each_parameter, 1},
        {hugging_face_names_outside_blocks, 1},
        {shape_that_does_not_fit_is_refused_by_field, COUNT(misfits)},
        {dropout_must_leave_something, 1},
        {block_tensors_have_their_shapes, 1},
        {block_tensors_follow_the_order_of_their_ops, 1},
    };
    return suite_run("shape", tests, COUNT(tests));
}
