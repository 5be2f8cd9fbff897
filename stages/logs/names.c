/* The names that programs give to columns, keys and tags. Order counts: of two steps the earlier row is taken. */
#include "stages/logs/readers.h"

#include <strings.h>

static const struct log_name names[] = {
    {"loss", LOG_LOSS, LOG_NATS},
    {"lm loss", LOG_LOSS, LOG_NATS},
    {"lm-loss", LOG_LOSS, LOG_NATS},
    {"lm_loss", LOG_LOSS, LOG_NATS},
    {"train_loss", LOG_LOSS, LOG_NATS},
    {"train/loss", LOG_LOSS, LOG_NATS},
    {"train-loss", LOG_LOSS, LOG_NATS},
    {"training_loss", LOG_LOSS, LOG_NATS},
    {"train_loss_step", LOG_LOSS, LOG_NATS},
    {"reduced_train_loss", LOG_LOSS, LOG_NATS},
    {"learning/loss", LOG_LOSS, LOG_NATS},
    {"lm-loss-training/lm loss", LOG_LOSS, LOG_NATS},
    {"train/lm_loss", LOG_LOSS, LOG_NATS},
    {"train/CE loss", LOG_LOSS, LOG_NATS},
    {"train/CrossEntropyLoss", LOG_LOSS, LOG_NATS},
    {"loss_metrics/global_avg_loss", LOG_LOSS, LOG_NATS},
    {"loss/train", LOG_LOSS, LOG_NATS},
    {"bpb", LOG_LOSS, LOG_BITS},
    {"train_bpb", LOG_LOSS, LOG_BITS},
    {"train/bpb", LOG_LOSS, LOG_BITS},
    {"eval_loss", LOG_HELD_OUT, LOG_NATS},
    {"eval/loss", LOG_HELD_OUT, LOG_NATS},
    {"eval/avg_loss", LOG_HELD_OUT, LOG_NATS},
    {"val_loss", LOG_HELD_OUT, LOG_NATS},
    {"val/loss", LOG_HELD_OUT, LOG_NATS},
    {"valid_loss", LOG_HELD_OUT, LOG_NATS},
    {"validation_loss", LOG_HELD_OUT, LOG_NATS},
    {"validation/loss", LOG_HELD_OUT, LOG_NATS},
    {"loss/val", LOG_HELD_OUT, LOG_NATS},
    {"lm loss validation", LOG_HELD_OUT, LOG_NATS},
    {"validation_metrics/loss", LOG_HELD_OUT, LOG_NATS},
    {"val_bpb", LOG_HELD_OUT, LOG_BITS},
    {"val/bpb", LOG_HELD_OUT, LOG_BITS},
    {"grad_norm", LOG_GRAD_NORM, LOG_NATS},
    {"grad norm", LOG_GRAD_NORM, LOG_NATS},
    {"grad-norm", LOG_GRAD_NORM, LOG_NATS},
    {"gradient_norm", LOG_GRAD_NORM, LOG_NATS},
    {"gnorm", LOG_GRAD_NORM, LOG_NATS},
    {"norm", LOG_GRAD_NORM, LOG_NATS},
    {"train/grad_norm", LOG_GRAD_NORM, LOG_NATS},
    {"learning/grad_norm", LOG_GRAD_NORM, LOG_NATS},
    {"optim/total grad norm", LOG_GRAD_NORM, LOG_NATS},
    {"optim/total_grad_norm", LOG_GRAD_NORM, LOG_NATS},
    {"grad-norm/grad-norm", LOG_GRAD_NORM, LOG_NATS},
    {"learning_rate", LOG_LEARNING_RATE, LOG_NATS},
    {"learning rate", LOG_LEARNING_RATE, LOG_NATS},
    {"learning-rate", LOG_LEARNING_RATE, LOG_NATS},
    {"lr", LOG_LEARNING_RATE, LOG_NATS},
    {"train/learning_rate", LOG_LEARNING_RATE, LOG_NATS},
    {"train/lr", LOG_LEARNING_RATE, LOG_NATS},
};

const struct log_name *name_find(struct text name)
{
    static const struct log_name other = {"", LOG_OTHER, LOG_NATS};
    name = text_trim(name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == name.size && !strncasecmp(names[i].name, name.at, name.size))
            return &names[i];
    return &other;
}

int name_is_step(struct text name)
{
    static const char *const steps[] = {"global_step/max_steps",
                                        "global_step",
                                        "current_steps",
                                        "train/global_step",
                                        "trainer/global_step",
                                        "_step",
                                        "step",
                                        "steps",
                                        "iteration",
                                        "iter",
                                        "train_step",
                                        "update"};
    name = text_trim(name);
    int count = sizeof steps / sizeof *steps;
    for (int i = 0; i < count; i++)
        if (strlen(steps[i]) == name.size && !strncasecmp(steps[i], name.at, name.size))
            return count - i;
    return 0;
}
