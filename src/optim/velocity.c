#include "optim/velocity.h"
#include <stddef.h>

const struct rt_option rt_velocity_options[RT_VELOCITY_OPTIONS] = {
    {.name = "momentum",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_velocity, momentum),
     .fallback = "0.9",
     .max = 1,
     .help = "part of the last step that is kept"},
};
