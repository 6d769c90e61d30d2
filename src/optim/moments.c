#include "optim/moments.h"
#include "optim/power.h"
#include <math.h>
#include <stddef.h>

const struct rt_option rt_moments_options[RT_MOMENTS_OPTIONS] = {
    {.name = "beta1",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_moments, beta1),
     .fallback = "0.9",
     .max = 0.9999999,
     .help = "how much of the average gradient is kept at each update"},
    {.name = "beta2",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_moments, beta2),
     .fallback = "0.999",
     .max = 0.9999999,
     .help = "how much of the average squared gradient is kept at each update"},
    {.name = "eps",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_moments, eps),
     .fallback = "1e-8",
     .min = 1e-30,
     .max = 1,
     .help = "keeps the division away from zero"},
};

void rt_moments_begin(const struct rt_optim *optim, struct rt_optim_step *step) {
    const struct rt_moments *moments = optim->settings;
    step->correction[0] = (float)((double)step->lr / (1 - rt_power(moments->beta1, step->update)));
    step->correction[1] = (float)sqrt(1 - rt_power(moments->beta2, step->update));
}
