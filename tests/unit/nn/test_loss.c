/* Losses: the models they refuse, right answers, values far out, and outputs as probabilities. */
#include "numeric/rig.h"
#include <math.h>

static const char *loss_refusal(const char *loss, const char *layers) {
    static struct rt_error err;
    struct rig rig;
    err.text[0] = 0;
    if (rig_open(&rig, "[4]", layers, 1, RT_MATH_REFERENCE, "auto", 1, &err) != RT_OK)
        return err.text;
    rt_loss_check(rt_loss_find(loss), rig.model, &err);
    rig_close(&rig);
    return err.text;
}

TEST(a_loss_refuses_what_does_not_suit_it) {
    CHECK(strstr(loss_refusal("cross_entropy", "[dense: 3, softmax]"), "applies softmax itself"));
    CHECK(strstr(loss_refusal("bce", "[dense: 3, sigmoid]"), "applies sigmoid itself"));
    CHECK(strstr(loss_refusal("cross_entropy", "[dense: 1]"), "one output per class"));
    CHECK(*loss_refusal("cross_entropy", "[softmax, dense: 2]") == 0);
    CHECK(*loss_refusal("mse", "[dense: 3, softmax]") == 0);
    CHECK(*loss_refusal("mse", "[dense: 3, sigmoid]") == 0);
    CHECK(*loss_refusal("bce", "[dense: 1]") == 0);
    CHECK(rt_loss_find("hinge") == NULL);
}

static size_t doubtful(const char *loss, const char *layers) {
    struct rt_error err;
    struct rig rig;
    if (rig_open(&rig, "[4]", layers, 1, RT_MATH_REFERENCE, "auto", 1, &err) != RT_OK)
        return 1000;
    const size_t found = rt_loss_doubtful(rt_loss_find(loss), rig.model);
    rig_close(&rig);
    return found;
}

TEST(what_a_loss_does_itself_is_found_before_the_end) {
    CHECK(doubtful("cross_entropy", "[dense: 3, softmax, dense: 3]") == 1);
    CHECK(doubtful("cross_entropy", "[dense: 3, softmax, dropout: 0.5]") == 1);
    CHECK(doubtful("cross_entropy", "[dense: 3, relu, dense: 3]") == SIZE_MAX);
    CHECK(doubtful("bce", "[dense: 3, sigmoid, dense: 1]") == SIZE_MAX);
    CHECK(doubtful("bce", "[dense: 3, sigmoid, dropout: 0.5]") == 1);
    CHECK(doubtful("mse", "[dense: 3, softmax, dense: 3]") == SIZE_MAX);
}

TEST(right_answers_are_counted) {
    const float y[] = {1, 2, 3, 3, 3, 1, -1, -2, -3};
    const int32_t classes[] = {2, 0, 1};
    const float values[] = {1, 0, 1, 1, 0, 0, 1, 0, 0};
    struct rt_targets targets = {.classes = classes, .values = values};
    CHECK(rt_loss_correct(rt_loss_find("cross_entropy"), 3, 3, y, &targets) ==
          2); /* the first of equals counts */
    CHECK(rt_loss_correct(rt_loss_find("bce"), 9, 1, y, &targets) == 5);
    CHECK(rt_loss_correct(rt_loss_find("mse"), 3, 3, y, &targets) == 0);
}

TEST(losses_stay_finite_far_out) {
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    const float y[] = {1000, -1000, 500, -500};
    const float values[] = {1, 0, 0, 1};
    const int32_t classes[] = {0, 1};
    struct rt_targets targets = {.classes = classes, .values = values};
    float losses[2], dy[4];
    rt_loss_find("bce")->evaluate(&device, 2, 2, y, &targets, 1, losses, dy);
    CHECK(losses[0] == 0 && losses[1] == 500);
    CHECK(dy[0] == 0 && dy[1] == 0 && dy[2] == 0.5f && dy[3] == -0.5f);
    rt_loss_find("cross_entropy")->evaluate(&device, 2, 2, y, &targets, 1, losses, dy);
    CHECK(losses[0] == 0 && losses[1] == 1000);
    CHECK(dy[2] == 1 && dy[3] == -1);
    rt_device_close(&device);
}

/* Whatever rows are done at a time: a row is summed in order, and its target may lie anywhere. */
TEST(mean_squares_are_summed_row_by_row) {
    enum { ROWS = 7, WIDTH = 300 };
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    static float y[ROWS * WIDTH], values[ROWS * WIDTH], dy[ROWS * WIDTH];
    const uint32_t value_rows[ROWS] = {3, 0, 6, 6, 1, 5, 2};
    float losses[ROWS];
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        y[i] = (float)(i * 7919 % 1013) / 97.0f;
        values[i] = (float)(i * 104729 % 997) / 89.0f;
    }
    for (size_t rows = 1; rows <= ROWS; rows++) {
        const struct rt_targets targets = {.values = values, .value_rows = rows % 2 ? value_rows : NULL};
        rt_loss_find("mse")->evaluate(&device, rows, WIDTH, y, &targets, 0.3f, losses, dy);
        for (size_t r = 0; r < rows; r++) {
            const float *target = values + (targets.value_rows ? value_rows[r] : r) * WIDTH;
            double sum = 0;
            for (size_t i = 0; i < WIDTH; i++) {
                const double difference = (double)(y[r * WIDTH + i] - target[i]);
                sum += difference * difference;
                CHECK(dy[r * WIDTH + i] == 0.3f * (2.0f / WIDTH) * (y[r * WIDTH + i] - target[i]));
            }
            CHECK(losses[r] == (float)(sum / WIDTH));
        }
    }
    rt_device_close(&device);
}

TEST(outputs_are_presented_as_probabilities) {
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    float y[] = {1, 1, 3, 3}, z[] = {0, 0};
    rt_loss_find("cross_entropy")->present(&device, 2, 2, y);
    for (size_t i = 0; i < 4; i++)
        CHECK(fabsf(y[i] - 0.5f) < 1e-6f);
    rt_loss_find("bce")->present(&device, 2, 1, z);
    CHECK(z[0] == 0.5f && z[1] == 0.5f);
    CHECK(rt_loss_find("mse")->present == NULL);
    rt_device_close(&device);
}

TEST_MAIN()
