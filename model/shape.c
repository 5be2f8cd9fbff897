#include "model/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Offsets are multiples of this, so that every parameter begins on a 128-byte boundary in bf16 too. */
enum { ALIGN_ELEMENTS = 64 };

/* tiny is untied and demo tied, so that the fast tests meet both kinds of output projection. */
static const struct model_shape presets[] = {
    /* preset, layers, hidden, ffn, heads, kv_heads, vocab, sequence, tied, rope_theta, norm_eps, dropout, init_std */
    {"tiny", 4, 32, 64, 4, 2, 256, 64, false, 10000, 1e-5f, 0.1f, 0.02f},
    {"demo", 32, 64, 192, 4, 2, 256, 256, true, 10000, 1e-5f, 0.1f, 0.02f},
    {"study", 32, 128, 384, 4, 2, 256, 256, true, 10000, 1e-5f, 0.1f, 0.02f},
    {"code-3b", 32, 2560, 6912, 20, 20, 50368, 16384, false, 10000, 1e-5f, 0.1f, 0.02f},
};

status shape_preset(struct model_shape *out, const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].preset, name)) {
            *out = presets[i];
            return OK;
        }
    return FAIL(ERR_USAGE, "preset '%s': no such model; there are tiny, demo, study and code-3b", name);
}

static status check_range(const char *field, int value, int most)
{
    if (value < 1 || value > most)
        return FAIL(ERR_USAGE, "%s %d: expected a whole number from 1 to %d", field, value, most);
    return OK;
}

status shape_check(const struct model_shape *s)
{
    /* The bounds keep every product of the memory arithmetic far inside 64 bits. */
    TRY(check_range("layers", s->layers, 1 << 12));
    TRY(check_range("hidden", s->hidden, 1 << 16));
    TRY(check_range("ffn", s->ffn, 1 << 18));
    TRY(check_range("heads", s->heads, 1 << 10));
    TRY(check_range("kv_heads", s->kv_heads, 1 << 10));
    TRY(check_range("vocab", s->vocab, 1 << 22));
    TRY(check_range("sequence", s->sequence, 1 << 22));
    if (s->hidden % s->heads)
        return FAIL(ERR_USAGE, "heads %d: must divide hidden %d", s->heads, s->hidden);
    if (s->heads % s->kv_heads)
        return FAIL(ERR_USAGE, "kv_heads %d: must divide heads %d", s->kv_heads, s->heads);
    if (shape_head_dim(s) % 2)
        return FAIL(ERR_USAGE,
                    "heads %d: hidden %d gives heads of %d columns, and rotary positions need an even number", s->heads,
                    s->hidden, shape_head_dim(s));
    if (!(s->hidden_dropout >= 0 && s->hidden_dropout < 1))
        return FAIL(ERR_USAGE, "hidden_dropout %g: expected 0 or more and less than 1", s->hidden_dropout);
    if (!(s->rope_theta > 1 && isfinite(s->rope_theta)))
        return FAIL(ERR_USAGE, "rope_theta %g: expected a number above 1", s->rope_theta);
    if (!(s->norm_eps > 0 && s->norm_eps < 1))
        return FAIL(ERR_USAGE, "norm_eps %g: expected a number above 0 and below 1", s->norm_eps);
    if (!(s->init_std > 0 && s->init_std < 1))
        return FAIL(ERR_USAGE, "init_std %g: expected a number above 0 and below 1", s->init_std);
    return OK;
}

/* ---- parameters ---- */

static void parameter_matrix(const struct model_shape *s, enum parameter_kind kind, int64_t *rows, int64_t *cols)
{
    *rows = 1;
    *cols = s->hidden;
    switch (kind) {
    case PARAMETER_EMBEDDING:
    case PARAMETER_HEAD:
        *rows = s->vocab;
        break;
    case PARAMETER_QKV:
        *rows = shape_qkv_cols(s);
        break;
    case PARAMETER_PROJECTION:
        *rows = s->hidden;
        break;
    case PARAMETER_GATE_UP:
        *rows = 2 * (int64_t)s->ffn;
        break;
    case PARAMETER_DOWN:
        *rows = s->hidden;
        *cols = s->ffn;
        break;
    case PARAMETER_INPUT_NORM:
    case PARAMETER_POST_NORM:
    case PARAMETER_FINAL_NORM:
        break;
    }
}

static int64_t parameter_stride(const struct model_shape *s, enum parameter_kind kind)
{
    int64_t rows, cols;
    parameter_matrix(s, kind, &rows, &cols);
    return (rows * cols + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
}

static int64_t block_stride(const struct model_shape *s)
{
    int64_t sum = 0;
    for (int kind = PARAMETER_INPUT_NORM; kind <= PARAMETER_DOWN; kind++)
        sum += parameter_stride(s, kind);
    return sum;
}

static int64_t parameter_offset(const struct model_shape *s, enum parameter_kind kind, int layer)
{
    if (kind == PARAMETER_EMBEDDING)
        return 0;
    int64_t offset = parameter_stride(s, PARAMETER_EMBEDDING);
    if (kind >= PARAMETER_FINAL_NORM) {
        offset += s->layers * block_stride(s);
        return kind == PARAMETER_HEAD ? offset + parameter_stride(s, PARAMETER_FINAL_NORM) : offset;
    }
    offset += layer * block_stride(s);
    for (int before = PARAMETER_INPUT_NORM; before < (int)kind; before++)
        offset += parameter_stride(s, before);
    return offset;
}

static float parameter_init_std(const struct model_shape *s, enum parameter_kind kind)
{
    switch (kind) {
    case PARAMETER_INPUT_NORM:
    case PARAMETER_POST_NORM:
    case PARAMETER_FINAL_NORM:
        return 0;
    case PARAMETER_PROJECTION:
    case PARAMETER_DOWN: /* 2 layers branches add up in the residual stream: its variance must not grow with depth */
        return s->init_std / sqrtf(2.0f * (float)s->layers);
    default:
        return s->init_std;
    }
}

int shape_parameter_count(const struct model_shape *s) { return 2 + BLOCK_PARAMETERS * s->layers + !s->tied; }

int shape_parameter_index(const struct model_shape *s, enum parameter_kind kind, int layer)
{
    switch (kind) {
    case PARAMETER_EMBEDDING:
        return 0;
    case PARAMETER_FINAL_NORM:
        return 1 + BLOCK_PARAMETERS * s->layers;
    case PARAMETER_HEAD:
        return 2 + BLOCK_PARAMETERS * s->layers;
    default:
        return 1 + BLOCK_PARAMETERS * layer + (int)(kind - PARAMETER_INPUT_NORM);
    }
}

struct parameter shape_parameter(const struct model_shape *s, int index)
{
    int final_norm = shape_parameter_index(s, PARAMETER_FINAL_NORM, -1);
    struct parameter p = {.layer = -1};
    if (index == 0) {
        p.kind = PARAMETER_EMBEDDING;
    } else if (index >= final_norm) {
        p.kind = index == final_norm ? PARAMETER_FINAL_NORM : PARAMETER_HEAD;
    } else {
        p.layer = (index - 1) / BLOCK_PARAMETERS;
        p.kind = PARAMETER_INPUT_NORM + (index - 1) % BLOCK_PARAMETERS;
    }
    parameter_matrix(s, p.kind, &p.rows, &p.cols);
    p.offset = parameter_offset(s, p.kind, p.layer);
    p.decay = p.rows > 1;
    p.init_std = parameter_init_std(s, p.kind);
    return p;
}

int64_t shape_elements(const struct model_shape *s)
{
    enum parameter_kind last = s->tied ? PARAMETER_FINAL_NORM : PARAMETER_HEAD;
    return parameter_offset(s, last, -1) + parameter_stride(s, last);
}

int64_t shape_parameter_elements(const struct model_shape *s)
{
    int64_t sum = 0;
    for (int i = 0; i < shape_parameter_count(s); i++) {
        struct parameter p = shape_parameter(s, i);
        sum += p.rows * p.cols;
    }
    return sum;
}

/* Names of the Hugging Face tensors in a parameter, top to bottom. Those of a block follow "model.layers.N.". */
static const char *const hf_names[][3] = {
    [PARAMETER_EMBEDDING] = {"model.embed_tokens.weight"},
    [PARAMETER_INPUT_NORM] = {"input_layernorm.weight"},
    [PARAMETER_QKV] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
    [PARAMETER_PROJECTION] = {"self_attn.o_proj.weight"},
    [PARAMETER_POST_NORM] = {"post_attention_layernorm.weight"},
    [PARAMETER_GATE_UP] = {"mlp.gate_proj.weight", "mlp.up_proj.weight"},
    [PARAMETER_DOWN] = {"mlp.down_proj.weight"},
    [PARAMETER_FINAL_NORM] = {"model.norm.weight"},
    [PARAMETER_HEAD] = {"lm_head.weight"},
};

int shape_hf_count(const struct model_shape *s, int index)
{
    enum parameter_kind kind = shape_parameter(s, index).kind;
    int count = 0;
    while (count < 3 && hf_names[kind][count])
        count++;
    return count;
}

void shape_hf_tensor(const struct model_shape *s, int index, int i, char name[96], int64_t *row, int64_t *rows)
{
    struct parameter p = shape_parameter(s, index);
    if (p.layer < 0)
        snprintf(name, 96, "%s", hf_names[p.kind][i]);
    else
        snprintf(name, 96, "model.layers.%d.%s", p.layer, hf_names[p.kind][i]);
    *row = 0;
    *rows = p.rows;
    if (p.kind == PARAMETER_QKV) {
        *row = i == 0 ? 0 : s->hidden + (i - 1) * (int64_t)shape_kv_cols(s);
        *rows = i == 0 ? s->hidden : shape_kv_cols(s);
    } else if (p.kind == PARAMETER_GATE_UP) {
        *row = i * (int64_t)s->ffn;
        *rows = s->ffn;
    }
}

/* ---- activations of one block ---- */

static const struct {
    const char *name;
    enum block_op op;
} tensors[BLOCK_TENSORS] = {
    [TENSOR_INPUT] = {"input", OP_STORED_INPUT},
    [TENSOR_NORM1] = {"norm1", OP_INPUT_NORM},
    [TENSOR_RSTD1] = {"rstd1", OP_INPUT_NORM},
    [TENSOR_QKV_RAW] = {"qkv_raw", OP_QKV},
    [TENSOR_QKV] = {"qkv", OP_ROPE},
    [TENSOR_ATTENTION] = {"attention", OP_ATTENTION},
    [TENSOR_LSE] = {"lse", OP_ATTENTION},
    [TENSOR_PROJECTED] = {"projected", OP_PROJECTION},
    [TENSOR_MIDDLE] = {"middle", OP_ATTENTION_DROPOUT},
    [TENSOR_NORM2] = {"norm2", OP_POST_NORM},
    [TENSOR_RSTD2] = {"rstd2", OP_POST_NORM},
    [TENSOR_GATE_UP] = {"gate_up", OP_GATE_UP},
    [TENSOR_ACTIVATED] = {"activated", OP_SWIGLU},
    [TENSOR_DOWN] = {"down", OP_DOWN},
    [TENSOR_OUTPUT] = {"output", OP_MLP_DROPOUT},
};

static const struct {
    const char *name, *family;
} ops[BLOCK_OPS + 1] = {
    [OP_INPUT_NORM] = {"input_norm", "norm"},
    [OP_QKV] = {"qkv", "gemm"},
    [OP_ROPE] = {"rope", "rope"},
    [OP_ATTENTION] = {"attention", "attention"},
    [OP_PROJECTION] = {"projection", "gemm"},
    [OP_ATTENTION_DROPOUT] = {"attention_dropout", "dropout"},
    [OP_POST_NORM] = {"post_norm", "norm"},
    [OP_GATE_UP] = {"gate_up", "gemm"},
    [OP_SWIGLU] = {"swiglu", "swiglu"},
    [OP_DOWN] = {"down", "gemm"},
    [OP_MLP_DROPOUT] = {"mlp_dropout", "dropout"},
    [OP_STORED_INPUT] = {"stored_input", "stored"},
};

const char *block_tensor_name(enum block_tensor t) { return tensors[t].name; }

enum block_op block_tensor_op(enum block_tensor t) { return tensors[t].op; }

const char *block_op_name(enum block_op op) { return ops[op].name; }

const char *block_op_family(enum block_op op) { return ops[op].family; }

bool block_tensor_by_head(enum block_tensor t) { return t == TENSOR_LSE; }

struct view block_tensor_view(const struct model_shape *s, enum block_tensor t, int64_t B, int64_t T,
                              enum dtype storage)
{
    enum dtype statistic = storage == F64 ? F64 : F32;
    switch (t) {
    case TENSOR_RSTD1:
    case TENSOR_RSTD2:
        return view_of(NULL, statistic, B * T, 1);
    case TENSOR_LSE:
        return view_of(NULL, statistic, B * s->heads, T);
    case TENSOR_QKV_RAW:
    case TENSOR_QKV:
        return view_of(NULL, storage, B * T, shape_qkv_cols(s));
    case TENSOR_GATE_UP:
        return view_of(NULL, storage, B * T, 2 * (int64_t)s->ffn);
    case TENSOR_ACTIVATED:
        return view_of(NULL, storage, B * T, s->ffn);
    default:
        return view_of(NULL, storage, B * T, s->hidden);
    }
}
