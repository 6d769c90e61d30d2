/* Measuring layers: rough truths only, since machines that run tests are busy. */
#include "base/clock.h"
#include "base/memory.h"
#include "formats/yaml.h"
#include "plan/plan.h"
#include "support/test.h"

static rt_status make_job(const char *text, struct rt_job **job, struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(text, strlen(text), "run.yaml", &tree, err);
    return status == RT_OK ? rt_job_create(tree, job, err) : status;
}

TEST(layers_cost_what_they_should) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_layer_times times[7], slow[7];
    CHECK_OK(make_job(
        "{learner: ring, input: [1, 4, 4], layers: [flatten, dense: 8, relu, dropout: 0.5, dense: 1024, "
        "residual: [dense: 1024, batchnorm, tanh], dense: 2], loss: mse, batch: 64, "
        "optimizer: adam}",
        &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    const double start = rt_clock_wall();
    CHECK_OK(rt_profile_measure(job, &device, 16, 1, 0, times, 7, &err));
    const double seconds = rt_clock_wall() - start;
    CHECK_MSG(seconds < 5, "%f s", seconds);
    for (size_t i = 0; i < 7; i++) {
        const bool params = i == 1 || i >= 4;
        CHECK_MSG(times[i].forward >= 0 && times[i].forward < 1, "layer %zu: %g s", i, times[i].forward);
        CHECK_MSG(params ? times[i].weights > 0 && times[i].update > 0
                         : times[i].weights == 0 && times[i].update == 0,
                  "layer %zu: weights %g s, update %g s", i, times[i].weights, times[i].update);
        /* the gradient at the inputs of the first layer with parameters is not needed */
        CHECK_MSG(i < 2 ? times[i].input == 0 : times[i].input > 0, "layer %zu: input %g s", i,
                  times[i].input);
    }
    CHECK(times[2].forward == 0); /* the dense layer before it does it */
    CHECK(times[5].forward > times[1].forward);
    CHECK(times[5].weights > times[1].weights);
    CHECK(times[5].update > times[1].update);
    CHECK_OK(rt_profile_measure(job, &device, 16, 1000, 0, slow, 7, &err));
    CHECK(slow[5].forward > 50 * times[5].forward && slow[5].update > 50 * times[5].update);
    rt_device_close(&device);
    rt_job_destroy(job);
}

TEST(evaluation_costs_no_backward) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_layer_times times[3];
    CHECK_OK(make_job(
        "{learner: ring, input: [1, 6, 6], layers: [conv2d: {filters: 2, kernel: 3}, flatten, dense: 8], "
        "loss: mse, batch: 8, evaluate_only: true}",
        &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 2, &device, &err));
    CHECK_OK(rt_profile_measure(job, &device, 8, 1, 0, times, 3, &err));
    for (size_t i = 0; i < 3; i++)
        CHECK(times[i].input == 0 && times[i].weights == 0 && times[i].update == 0);
    CHECK(times[0].forward > 0 && times[2].forward > 0);
    rt_device_close(&device);
    rt_job_destroy(job);
}

/* A layer that no machine has memory for is estimated from the others. */
TEST(a_layer_without_room_is_estimated) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_layer_times times[3];
    char text[1000] = "{learner: ring, input: [4], layers: [dense: 30000, residual: [";
    for (size_t i = 0; i < 40; i++) /* 36e9 parameters */
        strcat(text, i ? ", dense: 30000" : "dense: 30000");
    strcat(text, "], dense: 4], loss: mse, batch: 1, optimizer: adam}");
    CHECK_OK(make_job(text, &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    CHECK_OK(rt_profile_measure(job, &device, 1, 1, 0, times, 3, &err));
    CHECK_MSG(times[1].forward > 100 * times[0].forward, "%g and %g s", times[1].forward, times[0].forward);
    CHECK(times[1].weights > 0 && times[1].update > 0);
    rt_device_close(&device);
    rt_job_destroy(job);
}

/* So is one that takes more than the device offers: nothing is taken for it. */
TEST(the_offer_of_a_device_is_kept) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_layer_times times[2];
    CHECK_OK(make_job("{learner: ring, input: [8], layers: [dense: 5000, dense: 5000], loss: mse, batch: 1, "
                      "optimizer: adam}",
                      &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    const uint64_t before = rt_memory_peak();
    CHECK_OK(rt_profile_measure(job, &device, 1, 1, 16 << 20, times, 2, &err));
    const uint64_t taken = rt_memory_peak() - before;
    CHECK_MSG(before == 0 || taken < 64 << 20, "%llu bytes", (unsigned long long)taken);
    CHECK(times[1].forward > 10 * times[0].forward);
    rt_device_close(&device);
    rt_job_destroy(job);
}

TEST(bad_requests_are_refused) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_layer_times times[3];
    CHECK_OK(make_job("{learner: ring, input: [4], layers: [dense: 4], loss: mse, batch: 8}", &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    CHECK(rt_profile_measure(job, &device, 8, 1, 0, times, 3, &err) == RT_BAD_INPUT);
    CHECK(rt_profile_measure(job, &device, 0, 1, 0, times, 1, &err) == RT_BAD_INPUT);
    CHECK(rt_profile_measure(job, &device, 9, 1, 0, times, 1, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_profile_measure(job, &device, 8, 1, 0, times, 1, &err));
    rt_device_close(&device);
    rt_job_destroy(job);
}

/* The largest layer counts, with its gradient, the optimizer's two words and the rows. */
TEST(measuring_takes_the_memory_of_one_layer) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_device device;
    struct rt_model *model;
    double few, many;
    uint32_t index = 0;
    CHECK_OK(make_job(
        "{learner: ring, input: [100], layers: [dense: 1000, relu, dense: 500, dense: 2], loss: mse, "
        "batch: 64, optimizer: adam}",
        &job, &err));
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    CHECK_OK(
        rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, device.kernels, &index, &model, &err));
    CHECK_OK(rt_profile_bytes(job, model, 1, &few, &err));
    CHECK_OK(rt_profile_bytes(job, model, 64, &many, &err));
    const double largest = 4 * 500500.0 * sizeof(float);
    CHECK_MSG(few >= largest && few < 2 * largest, "%g bytes, the parameters %g", few, largest);
    CHECK_MSG(many >= few + 63 * 2 * 1000 * sizeof(float), "%g bytes, %g for a row", many, few);
    rt_model_destroy(model);
    rt_device_close(&device);
    rt_job_destroy(job);
}

TEST_MAIN()
