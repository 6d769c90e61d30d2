/*
 * The registry of update rules, and what they have in common: reading their description, the numbers of an
 * update, and finding a span's part of the state.
 */
#include "optim/optim.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "optim/rules.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RULES = 6, MAX_STATE = 4 };

static const struct rt_optim_type *const types[RULES + 1] = {
    &rt_optim_sgd, &rt_optim_momentum, &rt_optim_nesterov, &rt_optim_adagrad, &rt_optim_adam, &rt_optim_adamw,
    NULL,
};

const struct rt_optim_type *const *rt_optim_types(void) {
    return types;
}

const struct rt_optim_type *rt_optim_type_find(const char *name) {
    for (size_t i = 0; types[i]; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

/* A rule's settings follow struct rt_optim in the same piece of memory. */
static const size_t settings_at =
    (sizeof(struct rt_optim) + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);

size_t rt_optim_options(const struct rt_optim_type *type, struct rt_option options[RT_OPTIM_OPTIONS]) {
    options[0] = (struct rt_option){.name = "lr",
                                    .kind = RT_OPTION_REAL,
                                    .offset = offsetof(struct rt_optim, lr),
                                    .fallback = type->default_lr,
                                    .max = 1e38,
                                    .help = "learning rate"};
    options[1] = (struct rt_option){.name = "weight_decay",
                                    .kind = RT_OPTION_REAL,
                                    .offset = offsetof(struct rt_optim, weight_decay),
                                    .fallback = type->default_weight_decay ? type->default_weight_decay : "0",
                                    .max = 1e38,
                                    .help = "pull of every parameter towards zero"};
    size_t count = 2;
    for (size_t i = 0; i < type->option_count && count < RT_OPTIM_OPTIONS; i++, count++) {
        options[count] = type->options[i];
        options[count].offset += settings_at;
    }
    return count;
}

static rt_status optim_find_rule(const struct rt_tree *tree, const char *name,
                                 const struct rt_optim_type **type, struct rt_error *err) {
    *type = rt_optim_type_find(name);
    if (*type)
        return RT_OK;
    const char *names[RULES + 1] = {NULL};
    for (size_t i = 0; types[i]; i++)
        names[i] = types[i]->name;
    const char *nearest = rt_nearest(name, names);
    if (nearest)
        return rt_tree_fail(tree, err, "unknown optimizer '%s'; did you mean '%s'?", name, nearest);
    return rt_tree_fail(tree, err, "unknown optimizer '%.100s'; there are %s", name, RT_LISTED(names));
}

/* Splits "adam" or {adam: settings} into the rule and its settings. */
static rt_status optim_read_rule(const struct rt_tree *tree, const struct rt_optim_type **type,
                                 const struct rt_tree **settings, struct rt_error *err) {
    *type = &rt_optim_sgd;
    *settings = NULL;
    if (!tree)
        return RT_OK;
    if (tree->kind == RT_TREE_SCALAR)
        return optim_find_rule(tree, tree->text, type, err);
    if (tree->kind == RT_TREE_MAP && tree->count > 1)
        return rt_tree_fail(tree, err, "optimizer is one rule with its options, not %zu ('%s', '%s'...)",
                            tree->count, tree->items[0]->key, tree->items[1]->key);
    if (tree->kind != RT_TREE_MAP || tree->count != 1)
        return rt_tree_fail(tree, err,
                            "optimizer must be a name or one name with its options, as in "
                            "{momentum: {lr: 0.05}}");
    *settings = tree->items[0];
    return optim_find_rule(tree->items[0], tree->items[0]->key, type, err);
}

static bool optim_has_option(const struct rt_optim_type *type, const char *name) {
    struct rt_option options[RT_OPTIM_OPTIONS];
    const size_t count = rt_optim_options(type, options);
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return true;
    return false;
}

const struct rt_optim_type *rt_optim_type_with(const char *option) {
    for (size_t i = 0; types[i]; i++)
        if (optim_has_option(types[i], option))
            return types[i];
    return NULL;
}

/* An option that this rule does not have but another has, as momentum for sgd: names those rules. */
static rt_status optim_point_to_others(const struct rt_optim_type *type, const struct rt_tree *settings,
                                       rt_status status, struct rt_error *err) {
    for (size_t i = 0; settings && settings->kind == RT_TREE_MAP && i < settings->count; i++) {
        const char *key = settings->items[i]->key, *others[RULES + 1] = {NULL};
        size_t count = 0;
        for (size_t j = 0; types[j]; j++)
            if (optim_has_option(types[j], key))
                others[count++] = types[j]->name;
        if (count > 0 && !optim_has_option(type, key))
            return rt_fail_more(err, status, "; %s is an option of %s", key, RT_LISTED(others));
    }
    return status;
}

rt_status rt_optim_create(const struct rt_tree *tree, struct rt_optim **optim, struct rt_error *err) {
    const struct rt_optim_type *type;
    const struct rt_tree *settings;
    rt_status status = optim_read_rule(tree, &type, &settings, err);
    if (status != RT_OK)
        return status;

    struct rt_option options[RT_OPTIM_OPTIONS];
    size_t count = rt_optim_options(type, options);
    char *memory;
    status = rt_alloc(1, settings_at + type->settings_bytes, "the optimizer's settings", &memory, err);
    if (status != RT_OK)
        return status;
    status = rt_options_read(options, count, "lr", settings, type->name, memory, err);
    if (status != RT_OK) {
        free(memory);
        return optim_point_to_others(type, settings, status, err);
    }
    *optim = (struct rt_optim *)(void *)memory;
    (*optim)->type = type;
    (*optim)->settings = memory + settings_at;
    return RT_OK;
}

void rt_optim_decay(struct rt_optim *optim, const struct rt_tree *tree, double weight_decay) {
    const struct rt_tree *rule = tree && tree->kind == RT_TREE_MAP && tree->count ? tree->items[0] : NULL;
    if (weight_decay >= 0 && !rt_tree_get(rule, "weight_decay"))
        optim->weight_decay = weight_decay;
}

void rt_optim_destroy(struct rt_optim *optim) {
    free(optim);
}

float rt_optim_clip(double clip_norm, double squares, double scale) {
    const double norm = sqrt(squares) * scale;
    return (float)(clip_norm > 0 && norm > clip_norm ? scale * (clip_norm / norm) : scale);
}

unsigned rt_optim_damp(const struct rt_optim *optim) {
    const struct rt_optim_type *type = optim->type;
    return type->momentum && !(type->momentum(optim) > 0) ? 0 : type->damp;
}

void rt_optim_begin(const struct rt_optim *optim, uint64_t update, double lr_factor, float grad_scale,
                    struct rt_optim_step *step) {
    *step = (struct rt_optim_step){
        .lr = (float)(optim->lr * lr_factor),
        .weight_decay = (float)optim->weight_decay,
        .grad_scale = grad_scale,
        .update = update,
    };
    if (optim->type->begin)
        optim->type->begin(optim, step);
}

/* The address of each tensor of the state of a span. */
static void optim_place_state(const struct rt_optim *optim, size_t offset, size_t total, float *state,
                              float **tensors) {
    for (size_t tensor = 0; tensor < optim->type->state_tensors; tensor++)
        tensors[tensor] = state + tensor * total + offset;
}

void rt_optim_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t offset, size_t n,
                    size_t total, float *w, const float *g, float *state) {
    float *tensors[MAX_STATE] = {NULL};
    optim_place_state(optim, offset, total, state, tensors);
    optim->type->apply(optim, step, n, w + offset, g, tensors);
}
