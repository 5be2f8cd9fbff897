/* rematch-export - the final weights of a record as a folder that Hugging Face's LlamaForCausalLM loads. */
#include <stdlib.h>

#include "data/jsonl.h"
#include "data/record.h"
#include "stages/command.h"
#include "stages/huggingface.h"
#include "stages/layout.h"
#include "stages/point.h"

#define FINAL "final.safetensors"

struct options {
    const char *record, *folder;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o':
        o->folder = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num)
            argp_error(state, "one record, not '%s' as well", argument);
        o->record = argument;
        return 0;
    case ARGP_KEY_END:
        if (!o->record || !o->folder)
            argp_error(state, "expected a record and -o FOLDER");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static status read_point(struct point *out, struct record *record)
{
    const void *bytes;
    size_t size;
    json_t *object = NULL;
    TRY(record_read(record, "config.json", &bytes, &size));
    TRY(json_object_parse(&object, bytes, size, record_path(record)));
    status st = point_from_json(out, object, record_path(record));
    json_decref(object);
    return st;
}

static status write_weights(const struct options *o, const struct point *p, const struct safetensors *file,
                            const char *name)
{
    struct tensor_list list = {0};
    status st = OK;
    TRY_DONE(huggingface_gather(&list, &p->model, file, name));
    TRY_DONE(huggingface_write(o->folder, &p->model, &list));
    printf("%s: the weights of %s, %lld parameters in %s\n", o->folder, p->name,
           (long long)shape_parameter_elements(&p->model), dtype_name(p->training.storage));
done:
    tensor_list_free(&list);
    return st;
}

static status export_record(const struct options *o)
{
    struct record *record;
    struct safetensors *file = NULL;
    struct point point;
    const void *bytes;
    size_t size;
    char name[LAYOUT_PATH + 32];
    status st = OK;
    TRY(record_open(&record, o->record));
    snprintf(name, sizeof name, "%s: " FINAL, o->record);
    TRY_DONE(read_point(&point, record));
    TRY_DONE(record_read(record, FINAL, &bytes, &size));
    TRY_DONE(safetensors_parse(&file, name, bytes, size));
    TRY_DONE(write_weights(o, &point, file, name));
done:
    safetensors_close(file);
    record_close(record);
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"output", 'o', "FOLDER", 0, "The folder to write; it must not be there yet", 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        "RECORD" RECORD_SUFFIX,
        "Writes the final weights of a record, in the storage type of the run, as a folder in Hugging Face's layout: "
        "LlamaForCausalLM.from_pretrained(FOLDER) loads it, and so does a study, as model: {checkpoint: FOLDER}.",
        NULL,
        NULL,
        NULL};
    struct options o = {0};
    command_parse(&argp, argc, argv, &o);
    return command_exit(export_record(&o));
}
