/*
 * Gradients of every registered layer and loss against central differences. The network computes in float,
 * so a difference carries noise of about 1e-7 / step; with the step below the bound of 2e-3 leaves it room,
 * while a wrong term shows as 1e-1 and more.
 */
#include "numeric/layer_cases.h"
#include "numeric/rig.h"
#include <math.h>

#define STEP  0x1p-8f
#define BOUND 2e-3

/* The projection of the output on r, in double. */
static double projection(struct rig *rig) {
    rig_forward(rig);
    double sum = 0;
    for (size_t i = 0; i < rig->rows * rig->out; i++)
        sum += (double)rig->y[i] * (double)rig->r[i];
    return sum;
}

/* |numeric - analytic| relative to |analytic| for the n values at v. */
static double compare(struct rig *rig, size_t n, float *v, const float *analytic) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        float keep = v[i];
        v[i] = keep + STEP;
        rig->blocks.prepared_valid = false;
        double above = projection(rig);
        v[i] = keep - STEP;
        rig->blocks.prepared_valid = false;
        double below = projection(rig);
        v[i] = keep;
        rig->blocks.prepared_valid = false;
        double error = (above - below) / (2.0 * (double)STEP) - (double)analytic[i];
        difference += error * error;
        size += (double)analytic[i] * (double)analytic[i];
    }
    return n == 0 ? 0 : sqrt(difference / (size > 0 ? size : 1));
}

TEST(every_layer_has_a_case) {
    for (size_t t = 0; rt_layer_types()[t]; t++) {
        const char *name = rt_layer_types()[t]->name;
        bool small = false, wide = false;
        for (size_t i = 0; i < LAYER_CASES; i++)
            if (strcmp(layer_cases[i].type, name) == 0 && strstr(layer_cases[i].layers, name)) {
                small |= !layer_cases[i].wide;
                wide |= layer_cases[i].wide;
            }
        CHECK_MSG(small, "layer %s has no small case in layer_cases.h: its gradients are not tested", name);
        CHECK_MSG(wide, "layer %s has no wide case in layer_cases.h: its threads are not tested", name);
    }
}

TEST(layer_gradients) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        if (c->wide)
            continue;
        struct rig rig;
        CHECK_OK(rig_open(&rig, c->input, c->layers, c->rows, RT_MATH_REFERENCE, "auto", 1, &err));
        rig_forward(&rig);
        rig_backward(&rig, RT_BACKWARD_BOTH, NULL);
        double inputs = compare(&rig, rig.rows * rig.in, rig.x, rig.dx);
        double params = compare(&rig, rig.model->param_count, rig.blocks.params, rig.grads);
        CHECK_MSG(inputs < BOUND, "%s %s: input gradient differs by %.2e", c->input, c->layers, inputs);
        CHECK_MSG(params < BOUND, "%s %s: parameter gradient differs by %.2e", c->input, c->layers, params);
        rig_close(&rig);
    }
}

enum { ROWS = 4, WIDTH = 5 };

TEST(loss_gradients) {
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &device, &err));
    for (size_t t = 0; rt_loss_types()[t]; t++) {
        const struct rt_loss_type *loss = rt_loss_types()[t];
        for (size_t width = loss->classes ? 2 : 1; width <= WIDTH; width++) {
            float y[ROWS * WIDTH], values[ROWS * WIDTH], dy[ROWS * WIDTH], losses[ROWS];
            int32_t classes[ROWS];
            rig_fill(1, 3, ROWS * width, y);
            rig_fill(2, 0.5f, ROWS * width, values);
            for (size_t i = 0; i < ROWS * width; i++)
                values[i] += 0.5f;
            for (size_t i = 0; i < ROWS; i++)
                classes[i] = (int32_t)(i % width);
            struct rt_targets targets = {.classes = classes, .values = values};
            loss->evaluate(&device, ROWS, width, y, &targets, 0.25f, losses, dy);
            double difference = 0, size = 0;
            for (size_t i = 0; i < ROWS * width; i++) {
                float keep = y[i], above[ROWS], below[ROWS];
                y[i] = keep + STEP;
                loss->evaluate(&device, ROWS, width, y, &targets, 0.25f, above, NULL);
                y[i] = keep - STEP;
                loss->evaluate(&device, ROWS, width, y, &targets, 0.25f, below, NULL);
                y[i] = keep;
                double sum = 0;
                for (size_t r = 0; r < ROWS; r++)
                    sum += 0.25 * ((double)above[r] - (double)below[r]);
                double error = sum / (2.0 * (double)STEP) - (double)dy[i];
                difference += error * error;
                size += (double)dy[i] * (double)dy[i];
            }
            CHECK_MSG(sqrt(difference / size) < BOUND, "%s of width %zu: gradient differs by %.2e",
                      loss->name, width, sqrt(difference / size));
        }
    }
    rt_device_close(&device);
}

TEST_MAIN()
