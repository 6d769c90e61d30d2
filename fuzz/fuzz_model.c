/* Any bytes as a saved model: its description, its tensors, its scaling and its names. What is accepted must
 * be usable: an input of its size gives an output of its size. */
#include "learn/evaluate.h"
#include "run/modelfile.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_FLOATS = 1 << 16 };

static rt_status take(void *user, size_t example, const float *outputs, size_t width, struct rt_error *err) {
    size_t *taken = user;
    (void)example, (void)outputs, (void)err;
    *taken += width;
    return RT_OK;
}

static void use(struct rt_trained *trained) {
    struct rt_network *network = &trained->network;
    if (network->inputs > MOST_FLOATS || rt_model_slot_floats(network->model, 1, false) > MOST_FLOATS)
        return;
    float *inputs = calloc(network->inputs, sizeof *inputs);
    const struct rt_dataset set = {
        .count = 1, .shape = network->model->in, .type = RT_DATA_F32, .inputs = inputs};
    const struct rt_forward forward = rt_forward_local(network);
    size_t taken = 0;
    struct rt_error err;
    if (!inputs || rt_predict(network, &forward, &set, &trained->scaling, take, &taken, &err) != RT_OK ||
        taken != network->outputs)
        abort();
    free(inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const struct rt_computing computing = {.math = RT_MATH_EXACT, .kernels = "portable", .threads = 1};
    struct rt_error err;
    struct rt_tensors tensors;
    struct rt_trained trained;
    if (rt_tensors_parse(data, bytes, "fuzz", &tensors, &err) != RT_OK)
        return 0;
    if (rt_modelfile_build(&tensors, "fuzz", &computing, &trained, &err) == RT_OK) {
        use(&trained);
        rt_trained_deinit(&trained);
    }
    rt_tensors_close(&tensors);
    return 0;
}
