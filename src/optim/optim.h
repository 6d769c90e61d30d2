/*
 * Update rules on flat spans: one rule, one file. A rule never sees layers; its state is one block of
 * state_tensors floats per parameter, laid out [tensor][parameter], so a span of parameters has a span of
 * each. Only +, -, *, / and sqrt touch the numbers, so every machine gets the same bits.
 */
#ifndef RT_OPTIM_OPTIM_H
#define RT_OPTIM_OPTIM_H

#include "base/option.h"

struct rt_optim_type;

/* The numbers of one update, the same for every span of it. Made by rt_optim_begin. */
struct rt_optim_step {
    float lr;
    float weight_decay;
    float grad_scale;    /* gradients are multiplied by this first (clipping); 1 leaves them alone */
    uint64_t update;     /* counted from 1 */
    float correction[2]; /* a rule's own (adam: the bias corrections) */
};

struct rt_optim {
    const struct rt_optim_type *type;
    void *settings;
    double lr, weight_decay;
};

struct rt_optim_type {
    const char *name;
    const char *help;
    const struct rt_option *options; /* lr and weight_decay are every rule's and not listed here */
    size_t option_count;
    size_t settings_bytes;
    const char *default_lr;           /* as text, as every option has it: no locale can spoil it */
    const char *default_weight_decay; /* NULL: 0 */
    size_t state_tensors;
    float state_start; /* initial value of the state */
    void (*begin)(const struct rt_optim *optim,
                  struct rt_optim_step *step); /* fills correction; may be NULL */
    void (*apply)(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                  const float *g, float *const *state);
    /* For a rule of plain descent, w -= lr * v: with a state tensor, v = momentum * v + gradient; without
     * one, v is the gradient and this is 0. A caller whose gradient is not a row of floats can then apply it
     * itself. NULL: another kind of rule. */
    float (*momentum)(const struct rt_optim *optim);
    /* The power of 1 + staleness by which the rate of a stale gradient is best divided, see rt_optim_damp. */
    unsigned damp;
};

const struct rt_optim_type *const *rt_optim_types(void); /* NULL-terminated */
const struct rt_optim_type *rt_optim_type_find(const char *name);
/* The first that has an option of this name; NULL: none. */
const struct rt_optim_type *rt_optim_type_with(const char *option);

/* All options of a rule: those that every rule has (lr, weight_decay) with this rule's defaults, and its own.
 * Returns how many. */
enum { RT_OPTIM_OPTIONS = 8 };
size_t rt_optim_options(const struct rt_optim_type *type, struct rt_option options[RT_OPTIM_OPTIONS]);

/* From "adam" or {adam: {lr: 0.001}}; tree NULL: sgd with its defaults. */
rt_status rt_optim_create(const struct rt_tree *tree, struct rt_optim **optim, struct rt_error *err);
/* Sets the weight decay that is given outside the description; one in the description takes precedence. Below
 * 0: none is given, and the rule's default stays. */
void rt_optim_decay(struct rt_optim *optim, const struct rt_tree *tree, double weight_decay);
void rt_optim_destroy(struct rt_optim *optim);

/* The factor on a gradient: `scale`, and then what reduces its norm (the root of squares times scale) to
 * clip_norm (0: no clipping). */
float rt_optim_clip(double clip_norm, double squares, double scale);

/* The default power for a rule. A rule that keeps the direction of past gradients repeats the error of a
 * stale one at every later step: with momentum the steps oscillate ever further unless the rate falls by more
 * than the delay. Rules with steps of even size need less. 0: the rule keeps no direction. */
unsigned rt_optim_damp(const struct rt_optim *optim);

/* lr_factor comes from the schedule, grad_scale from rt_optim_clip. */
void rt_optim_begin(const struct rt_optim *optim, uint64_t update, double lr_factor, float grad_scale,
                    struct rt_optim_step *step);

/* Applies the step to n parameters from `offset` on. w and state are the whole blocks of `total` parameters;
 * g points at the span's gradients. */
void rt_optim_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t offset, size_t n,
                    size_t total, float *w, const float *g, float *state);

#endif
