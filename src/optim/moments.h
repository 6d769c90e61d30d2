/* What adam and adamw share: their options and the corrections of an update. */
#ifndef RT_OPTIM_MOMENTS_H
#define RT_OPTIM_MOMENTS_H

#include "optim/optim.h"

struct rt_moments {
    double beta1, beta2, eps;
};

enum { RT_MOMENTS_OPTIONS = 3 };
extern const struct rt_option rt_moments_options[RT_MOMENTS_OPTIONS];

/* correction[0] = lr / (1 - beta1^t), the step; correction[1] = sqrt(1 - beta2^t), for the denominator: the
 * averages start at zero and would else be too small at first. */
void rt_moments_begin(const struct rt_optim *optim, struct rt_optim_step *step);

#endif
