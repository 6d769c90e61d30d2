/* Run file and strategy to optimizer, on the master; a node makes its own from the job. */
#include "run/optimizer.h"

#include "exchange/strategy.h"
#include "formats/yaml.h"

/* The one that a strategy wants. */
static rt_status optimizer_create_wanted(const char *text, struct rt_optim **optim, struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_yaml_value(text, "the strategy", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_optim_create(tree, optim, err);
    rt_tree_destroy(tree);
    return status;
}

rt_status rt_train_optimizer(const struct rt_spec_train *train, const struct rt_exchange_strategy *exchange,
                             struct rt_optim **optim, struct rt_error *err) {
    const struct rt_tree *tree = train->optimizer;
    rt_status status = !tree && exchange && exchange->optimizer
                           ? optimizer_create_wanted(exchange->optimizer, optim, err)
                           : rt_optim_create(tree, optim, err);
    if (status == RT_OK)
        rt_optim_decay(*optim, tree, train->weight_decay);
    return status;
}
