/* shape.h - the model as numbers: its presets, every parameter and every activation of a block with its shape.
 *
 * A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases. One process's
 * micro-batch is M = B*T rows. Source: arXiv:2302.13971 (block), arXiv:2305.13245 (grouped queries); parameter names
 * are Hugging Face's.
 */
#ifndef REMATCH_MODEL_SHAPE_H
#define REMATCH_MODEL_SHAPE_H

#include "kernels/status.h"
#include "kernels/tensor.h"

struct model_shape {
    char preset[24];
    int layers, hidden, ffn, heads, kv_heads, vocab, sequence;
    bool tied; /* the output projection is the embedding table */
    float rope_theta, norm_eps, hidden_dropout, init_std;
};

static inline int shape_head_dim(const struct model_shape *s) { return s->hidden / s->heads; }
static inline int shape_kv_cols(const struct model_shape *s) { return s->kv_heads * shape_head_dim(s); }
static inline int shape_qkv_cols(const struct model_shape *s) { return s->hidden + 2 * shape_kv_cols(s); }

/* tiny, demo, study, code-3b. ERR_USAGE for another name, with the list. */
status shape_preset(struct model_shape *out, const char *name);

/* ERR_USAGE naming the field that does not fit (heads must divide hidden, kv_heads heads, head_dim even, ...). */
status shape_check(const struct model_shape *s);

/* ---- parameters ---- */

enum parameter_kind {
    PARAMETER_EMBEDDING,  /* (V,H) model.embed_tokens.weight */
    PARAMETER_INPUT_NORM, /* (1,H) */
    PARAMETER_QKV,        /* (H + 2 KV, H): q_proj, k_proj, v_proj one under the other */
    PARAMETER_PROJECTION, /* (H,H) o_proj */
    PARAMETER_POST_NORM,  /* (1,H) */
    PARAMETER_GATE_UP,    /* (2F,H): gate_proj, up_proj one under the other */
    PARAMETER_DOWN,       /* (H,F) down_proj */
    PARAMETER_FINAL_NORM, /* (1,H) */
    PARAMETER_HEAD        /* (V,H) lm_head.weight, absent when tied */
};

enum { BLOCK_PARAMETERS = 6 }; /* INPUT_NORM .. DOWN, in that order */

struct parameter {
    enum parameter_kind kind;
    int layer; /* -1 outside blocks */
    int64_t rows, cols;
    int64_t offset; /* elements into the flat array that holds all parameters of one kind of storage */
    bool decay;     /* weight decay applies (matrices) */
    float init_std; /* 0: initialised to 1 (norms) */
};

/* Flat order: embedding, blocks, final norm, head. */
int shape_parameter_count(const struct model_shape *s);
struct parameter shape_parameter(const struct model_shape *s, int index);
int shape_parameter_index(const struct model_shape *s, enum parameter_kind kind, int layer);

/* All elements; offsets are multiples of 64 elements, the gaps between parameters stay zero. */
int64_t shape_elements(const struct model_shape *s);
int64_t shape_parameter_elements(const struct model_shape *s); /* without gaps: what people call the model's size */

/* Hugging Face tensors inside parameter `index`: fused ones hold several, rows one under the other. Returns how many
 * (1 to 3); name i goes to `name`, its first row and row count to *row, *rows. */
int shape_hf_count(const struct model_shape *s, int index);
void shape_hf_tensor(const struct model_shape *s, int index, int i, char name[96], int64_t *row, int64_t *rows);

/* ---- activations of one block ---- */

enum block_tensor {
    TENSOR_INPUT,     /* (M,H) the residual stream into the block: bf16 */
    TENSOR_NORM1,     /* (M,H) */
    TENSOR_RSTD1,     /* (M,1) f32 */
    TENSOR_QKV_RAW,   /* (M,H+2KV) before the rotation; shares its memory with QKV */
    TENSOR_QKV,       /* (M,H+2KV) after it */
    TENSOR_ATTENTION, /* (M,H) */
    TENSOR_LSE,       /* (B*heads,T) f32 */
    TENSOR_PROJECTED, /* (M,H) transient: remade with the layer, read by nobody in the backward */
    TENSOR_MIDDLE,    /* (M,H) residual stream after attention */
    TENSOR_NORM2,     /* (M,H) */
    TENSOR_RSTD2,     /* (M,1) f32 */
    TENSOR_GATE_UP,   /* (M,2F) */
    TENSOR_ACTIVATED, /* (M,F) */
    TENSOR_DOWN,      /* (M,H) transient */
    TENSOR_OUTPUT,    /* (M,H) the next block's INPUT (or the final norm's): lives there */
    BLOCK_TENSORS
};

/* The ops of a block, in order of the forward. */
enum block_op {
    OP_INPUT_NORM,
    OP_QKV,
    OP_ROPE,
    OP_ATTENTION,
    OP_PROJECTION,
    OP_ATTENTION_DROPOUT, /* hidden dropout and residual add after attention */
    OP_POST_NORM,
    OP_GATE_UP,
    OP_SWIGLU,
    OP_DOWN,
    OP_MLP_DROPOUT,
    BLOCK_OPS,
    OP_STORED_INPUT = BLOCK_OPS /* no op: the stored input of a chunk, verified as well */
};

/* "input", "norm1", "rstd1", "qkv_raw", ...: used in dumps and certificates. An op's family is "gemm", "dropout",
 * "attention", "norm", "rope", "swiglu" or "stored". */
const char *block_tensor_name(enum block_tensor t);
const char *block_op_name(enum block_op op);
const char *block_op_family(enum block_op op);
enum block_op block_tensor_op(enum block_tensor t); /* the op that makes it; OP_STORED_INPUT for INPUT */

/* Shape and type of a block's tensor for a micro-batch of B sequences of T tokens in `storage`, data NULL; rstd and lse
 * are f32 (f64 in an F64 run). */
struct view block_tensor_view(const struct model_shape *s, enum block_tensor t, int64_t B, int64_t T,
                              enum dtype storage);

/* Global row of each row of LSE (B*heads, T) does not follow the tokens: its row ids are (global sequence * heads + h);
 * every other tensor's are (global sequence * T + position). True for the former. */
bool block_tensor_by_head(enum block_tensor t);

#endif
