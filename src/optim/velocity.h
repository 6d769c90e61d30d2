/* What momentum and nesterov share: their option. */
#ifndef RT_OPTIM_VELOCITY_H
#define RT_OPTIM_VELOCITY_H

#include "optim/optim.h"

struct rt_velocity {
    double momentum;
};

enum { RT_VELOCITY_OPTIONS = 1 };
extern const struct rt_option rt_velocity_options[RT_VELOCITY_OPTIONS];

#endif
