/* Hugging Face folders: weights go out and come back bit by bit, and what the decoder has not is refused by name. */
#include "stages/huggingface.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/file.h"
#include "tests/small_model.h"
#include "tests/suite.h"
#include "tests/temporary.h"

/* ---- there and back ---- */

static const struct {
    bool tied;
    enum dtype storage;
    int kv_heads;
} kinds[] = {{true, BF16, 2}, {false, BF16, 4}, {false, F32, 1}};

static struct decoder_options options_of(int kind)
{
    struct decoder_options o = small_options();
    o.shape.tied = kinds[kind].tied;
    o.shape.kv_heads = kinds[kind].kv_heads;
    o.storage = kinds[kind].storage;
    return o;
}

/* Path of a folder with the first weights of a small model. */
static const char *folder_of(const char *name, const struct decoder_options *o)
{
    const char *path = temporary_path(name);
    struct small_model m;
    struct tensor_list list = {0};
    small_open(&m, o);
    struct view weight = decoder_state(m.decoder).weight;
    ck_ok(state_list(&list, &o->shape, "", &weight));
    ck_ok(file_remove_folder(path)); /* of a run before */
    ck_ok(huggingface_write(path, &o->shape, &list));
    tensor_list_free(&list);
    small_close(&m);
    return path;
}

static void check_shape(const struct model_shape *read, const struct model_shape *written)
{
    struct model_shape expected = *written;
    memset(expected.preset, 0, sizeof expected.preset);
    expected.sequence = 1;
    expected.hidden_dropout = 0;
    expected.init_std = 0.02f;
    ck_assert_mem_eq(read, &expected, sizeof expected);
}

START_TEST(weights_come_back_bit_by_bit)
{
    struct decoder_options o = options_of(_i), other = o;
    struct small_model written, read;
    struct huggingface h;
    o.shape.norm_eps = 3e-6f;
    o.shape.rope_theta = 500000.5f;
    const char *path = folder_of("there", &o);
    ck_ok(huggingface_open(&h, path));
    check_shape(&h.shape, &o.shape);
    huggingface_close(&h);
    other.seed++;
    small_open(&written, &o);
    small_open(&read, &other);
    struct optimizer_state a = decoder_state(written.decoder), b = decoder_state(read.decoder);
    memset(b.m.data, 1, view_bytes(&b.m));
    memset(b.v.data, 1, view_bytes(&b.v));
    ck_assert_mem_ne(b.weight.data, a.weight.data, view_bytes(&a.weight));
    ck_ok(huggingface_load(read.decoder, &o.shape, path, h.hash));
    ck_assert_mem_eq(b.weight.data, a.weight.data, view_bytes(&a.weight));
    /* Master weights are the file's, widened: here, the rounded ones. */
    ck_ok(decoder_device(written.decoder)->ops->convert(decoder_device(written.decoder), &a.master, &a.weight));
    ck_assert_mem_eq(b.master.data, a.master.data, view_bytes(&a.master));
    for (int64_t i = 0; i < b.m.cols; i++)
        ck_assert(((float *)b.m.data)[i] == 0 && ((float *)b.v.data)[i] == 0);
    small_close(&written);
    small_close(&read);
}
END_TEST

/* F32 weights in a BF16 run: the master weights keep what the rounded ones lose. */
START_TEST(wide_weights_are_kept_in_the_master)
{
    struct decoder_options o = options_of(2), narrow = o;
    struct small_model written, read;
    struct huggingface h;
    const char *path = folder_of("wide", &o);
    ck_ok(huggingface_open(&h, path));
    huggingface_close(&h);
    narrow.storage = BF16;
    narrow.seed++;
    small_open(&written, &o);
    small_open(&read, &narrow);
    ck_ok(huggingface_load(read.decoder, &o.shape, path, h.hash));
    struct optimizer_state a = decoder_state(written.decoder), b = decoder_state(read.decoder);
    ck_assert_mem_eq(b.master.data, a.master.data, view_bytes(&a.master));
    for (int64_t i = 0; i < b.weight.cols; i++)
        ck_assert_uint_eq(((uint16_t *)b.weight.data)[i], bf16_of_f32(((float *)a.master.data)[i]));
    small_close(&written);
    small_close(&read);
}
END_TEST

START_TEST(another_checkpoint_is_noticed)
{
    struct decoder_options o = options_of(0);
    struct small_model m;
    const char *path = folder_of("planned", &o);
    small_open(&m, &o);
    ck_assert_int_eq(huggingface_load(m.decoder, &o.shape, path, "00112233445566778899aabbccddeeff"), ERR_INPUT);
    ck_said("planned': is another checkpoint (hash ");
    ck_said("than the study was planned with (00112233445566778899aabbccddeeff)");
    small_close(&m);
}
END_TEST

/* ---- config.json ---- */

/* A folder whose config.json says what the defaults leave open, and `more`. */
static status open_with(struct huggingface *h, const char *more)
{
    struct decoder_options o = options_of(0);
    char text[1024];
    const char *path = folder_of("config", &o);
    int length = snprintf(text, sizeof text,
                          "{\"vocab_size\":64,\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":5,"
                          "\"num_attention_heads\":4,\"model_type\":\"llama\"%s}",
                          more);
    ck_ok(file_write(temporary_path("config/config.json"), text, (size_t)length));
    return huggingface_open(h, path);
}

START_TEST(keys_left_out_have_the_defaults_of_hugging_face)
{
    struct huggingface h;
    ck_ok(open_with(&h, ",\"num_key_value_heads\":2,\"tie_word_embeddings\":true"));
    ck_assert(h.shape.norm_eps == 1e-6f && h.shape.rope_theta == 10000);
    huggingface_close(&h);
}
END_TEST

static const struct {
    const char *more;
    float theta;
} ropes[] = {
    {",\"rope_theta\":2e4", 2e4f},
    {",\"rope_theta\":2e4,\"rope_scaling\":null", 2e4f},
    {",\"rope_parameters\":{\"rope_theta\":3e4,\"rope_type\":\"default\"}", 3e4f},
    {",\"rope_theta\":2e4,\"rope_parameters\":{\"rope_theta\":3e4,\"rope_type\":\"default\"}", 3e4f},
    {",\"rope_theta\":2e4,\"rope_scaling\":{\"type\":\"default\"}", 2e4f},
};

START_TEST(rope_is_read_in_its_old_and_new_form)
{
    struct huggingface h;
    char more[256];
    snprintf(more, sizeof more, ",\"num_key_value_heads\":2,\"tie_word_embeddings\":true,\"head_dim\":8%s",
             ropes[_i].more);
    ck_ok(open_with(&h, more));
    ck_assert(h.shape.rope_theta == ropes[_i].theta);
    huggingface_close(&h);
}
END_TEST

#define GOOD ",\"num_key_value_heads\":2,\"tie_word_embeddings\":true"

static const struct {
    const char *more, *said;
} bad_configs[] = {
    {GOOD ",\"attention_bias\":true", "config.json': \"attention_bias\" is true, expected false: give the checkpoint"},
    {GOOD ",\"mlp_bias\":true", "\"mlp_bias\" is true, expected false"},
    {GOOD ",\"hidden_act\":\"gelu\"", "\"hidden_act\" is \"gelu\", expected \"silu\""},
    {GOOD ",\"attention_dropout\":0.1", "\"attention_dropout\" is 0.1"},
    {GOOD ",\"head_dim\":16", "\"head_dim\" is 16, expected hidden_size / num_attention_heads"},
    {GOOD ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}", "\"rope_scaling\" is {\"rope_type\":\"llama3\""},
    {GOOD ",\"rope_parameters\":{\"rope_type\":\"default\",\"factor\":8}", "\"rope_parameters\" is "},
    {GOOD ",\"rope_parameters\":[1]", "\"rope_parameters\" is [1], expected an object"},
    {GOOD ",\"rope_theta\":\"big\"", "\"rope_theta\" is \"big\", expected a number"},
    {GOOD ",\"rms_norm_eps\":0", "config.json': norm_eps 0: expected a number above 0"},
    {",\"num_key_value_heads\":3,\"tie_word_embeddings\":true", "config.json': kv_heads 3: must divide heads 4"},
    {",\"num_key_value_heads\":2.0", "\"num_key_value_heads\" is 2.0, expected a whole number from 1"},
    {",\"num_key_value_heads\":2,\"tie_word_embeddings\":\"no\"", "\"tie_word_embeddings\" is \"no\""},
    {GOOD ",\"vocab_size\":64", "config.json': is not JSON: duplicate"},
    /* What the file of weights then lacks, or has too much. */
    {",\"tie_word_embeddings\":true", "model.safetensors: tensor 'model.layers.0.self_attn.k_proj.weight' is 16 x 32"},
    {",\"num_key_value_heads\":2", "model.safetensors: tensor 'lm_head.weight' is missing"},
};

START_TEST(config_of_another_model_refused)
{
    struct huggingface h;
    ck_assert_int_eq(open_with(&h, bad_configs[_i].more), ERR_INPUT);
    ck_said(bad_configs[_i].said);
}
END_TEST

START_TEST(config_of_another_type_refused)
{
    static const char text[] = "{\"model_type\":\"qwen2\"}", none[] = "{}";
    struct huggingface h;
    const char *folder = temporary_path("");
    ck_ok(file_write(temporary_path("config.json"), text, strlen(text)));
    ck_assert_int_eq(huggingface_open(&h, folder), ERR_INPUT);
    ck_said("\"model_type\" is \"qwen2\", expected \"llama\"");
    ck_ok(file_write(temporary_path("config.json"), none, strlen(none)));
    ck_assert_int_eq(huggingface_open(&h, folder), ERR_INPUT);
    ck_said("\"model_type\" is missing");
}
END_TEST

/* ---- model.safetensors ---- */

/* Rewrites the weights of a folder with one tensor more, or with its first one widened to F64. */
static void spoil(const char *folder, bool stranger)
{
    char path[512];
    static float room[2 * 64 * 32];
    struct safetensors *file;
    struct tensor_list list = {0};
    struct named_tensor *place;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ck_ok(safetensors_open(&file, path));
    for (int i = 0; i < safetensors_count(file); i++) {
        ck_ok(tensor_list_add(&list, &place));
        *place = *safetensors_at(file, i);
    }
    if (stranger) {
        ck_ok(tensor_list_add(&list, &place));
        *place = (struct named_tensor){.name = "model.layers.0.self_attn.q_proj.bias", .vector = true};
        place->view = view_of(room, F32, 1, 32);
    } else {
        list.at[0].view = view_of(room, F64, list.at[0].view.rows, list.at[0].view.cols);
    }
    ck_ok(safetensors_write(path, list.at, list.count, NULL));
    tensor_list_free(&list);
    safetensors_close(file);
}

START_TEST(foreign_weights_refused)
{
    struct decoder_options o = options_of(0);
    struct huggingface h;
    const char *path = folder_of("stranger", &o), *wide = folder_of("f64", &o), *split = folder_of("split", &o);
    spoil(path, true);
    ck_assert_int_eq(huggingface_open(&h, path), ERR_INPUT);
    ck_said("stranger/model.safetensors': tensor 'model.layers.0.self_attn.q_proj.bias' belongs to no parameter");
    spoil(wide, false);
    ck_assert_int_eq(huggingface_open(&h, wide), ERR_INPUT);
    ck_said("is F64, expected BF16 or F32: convert the checkpoint");
    ck_assert_int_eq(
        rename(temporary_path("split/model.safetensors"), temporary_path("split/model.safetensors.index.json")), 0);
    ck_assert_int_eq(huggingface_open(&h, split), ERR_INPUT);
    ck_said("max_shard_size");
    ck_assert_int_eq(remove(temporary_path("split/model.safetensors.index.json")), 0);
    ck_assert_int_eq(huggingface_open(&h, split), ERR_IO);
    ck_said("split/model.safetensors");
}
END_TEST

/* ---- whole or not at all ---- */

static status write_small(const char *path)
{
    struct decoder_options o = options_of(0);
    struct small_model m;
    struct tensor_list list = {0};
    small_open(&m, &o);
    struct view weight = decoder_state(m.decoder).weight;
    ck_ok(state_list(&list, &o.shape, "", &weight));
    status st = huggingface_write(path, &o.shape, &list);
    tensor_list_free(&list);
    small_close(&m);
    return st;
}

START_TEST(folder_is_written_whole_or_not_at_all)
{
    char name[512];
    snprintf(name, sizeof name, "%s//", temporary_path("a/deep/folder"));
    ck_ok(file_make_folder(temporary_path("a/deep/folder.partial/remains")));
    ck_ok(write_small(name));
    ck_assert(file_exists(temporary_path("a/deep/folder/config.json")));
    ck_assert(!file_exists(temporary_path("a/deep/folder/remains")));
    ck_assert(!file_exists(temporary_path("a/deep/folder.partial")));
    ck_assert_int_eq(write_small(name), ERR_USAGE);
    ck_said("a/deep/folder': is there already: give another folder, or remove it");
    ck_assert_int_eq(write_small(""), ERR_USAGE);
    temporary_no_room(4096);
    ck_assert_int_eq(write_small(temporary_path("full")), ERR_IO);
    ck_assert(!file_exists(temporary_path("full")) && !file_exists(temporary_path("full.partial")));
}
END_TEST

int main(void)
{
    const struct suite_test tests[] = {
        {weights_come_back_bit_by_bit, COUNT(kinds)},
        {wide_weights_are_kept_in_the_master, 1},
        {another_checkpoint_is_noticed, 1},
        {keys_left_out_have_the_defaults_of_hugging_face, 1},
        {rope_is_read_in_its_old_and_new_form, COUNT(ropes)},
        {config_of_another_model_refused, COUNT(bad_configs)},
        {config_of_another_type_refused, 1},
        {foreign_weights_refused, 1},
        {folder_is_written_whole_or_not_at_all, 1},
    };
    return suite_run("huggingface", tests, COUNT(tests));
}
