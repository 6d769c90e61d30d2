/* The update rules: one declaration each, one line each in optim.c's registry. */
#ifndef RT_OPTIM_RULES_H
#define RT_OPTIM_RULES_H

#include "optim/optim.h"

extern const struct rt_optim_type rt_optim_sgd, rt_optim_momentum, rt_optim_nesterov, rt_optim_adagrad,
    rt_optim_adam, rt_optim_adamw;

#endif
