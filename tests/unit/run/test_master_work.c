/* What the master of a ring does besides its layers takes time, and more the wider its examples are. */
#include "formats/yaml.h"
#include "run/ring/master_work.h"
#include "support/test.h"

static rt_status describe(const char *input, const char *layers, const char *loss, struct rt_network *network,
                          struct rt_error *err) {
    const struct rt_computing computing = {.kernels = "auto", .threads = 1};
    struct rt_tree *in = NULL, *list = NULL;
    rt_status status = rt_yaml_parse(input, strlen(input), "input", &in, err);
    if (status == RT_OK)
        status = rt_yaml_parse(layers, strlen(layers), "layers", &list, err);
    if (status == RT_OK)
        status = rt_network_describe(in, list, loss, &computing, network, err);
    rt_tree_destroy(in);
    rt_tree_destroy(list);
    return status;
}

TEST(wider_examples_take_longer) {
    struct rt_error err;
    struct rt_network narrow, wide;
    struct rt_master_work little, much;
    CHECK_OK(describe("[16]", "[dense: 8]", "mse", &narrow, &err));
    CHECK_OK(describe("[4096]", "[dense: 2048]", "mse", &wide, &err));
    CHECK_OK(rt_master_work_measure(&narrow, NULL, NULL, RT_TARGET_VALUES, 32, &little, &err));
    CHECK_OK(rt_master_work_measure(&wide, NULL, NULL, RT_TARGET_VALUES, 32, &much, &err));
    CHECK(little.inputs > 0 && little.loss > 0);
    CHECK_MSG(much.inputs > 4 * little.inputs, "%g and %g s for inputs", little.inputs, much.inputs);
    CHECK_MSG(much.loss > 4 * little.loss, "%g and %g s for the loss", little.loss, much.loss);
    CHECK_MSG(much.inputs < 1e-2 && much.loss < 1e-2, "%g and %g s", much.inputs, much.loss);
    rt_network_destroy(&narrow);
    rt_network_destroy(&wide);
}

/* Real examples, of classes; and whatever a set lacks is made up. */
TEST(any_set_will_do) {
    enum { COUNT = 5, WIDTH = 12 };
    struct rt_error err;
    struct rt_network network;
    struct rt_master_work work;
    uint8_t pixels[COUNT * WIDTH] = {1, 2, 3};
    const int32_t classes[COUNT] = {0, 1, 2, 1, 0};
    const struct rt_scaling scaling = {.scale = 1 / 255.0};
    struct rt_dataset set = {.count = COUNT,
                             .shape = {.rank = 1, .dim = {WIDTH}},
                             .type = RT_DATA_U8,
                             .inputs = pixels,
                             .classes = classes,
                             .class_count = 3};
    CHECK_OK(describe("[12]", "[dense: 3]", "cross_entropy", &network, &err));
    const enum rt_target targets[] = {RT_TARGET_CLASSES, RT_TARGET_VALUES, RT_TARGET_INPUT};
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(rt_master_work_measure(&network, &set, &scaling, targets[i], 64, &work, &err));
        CHECK(work.inputs > 0 && work.loss > 0);
    }
    set.count = 0; /* a stream has none yet */
    CHECK_OK(rt_master_work_measure(&network, &set, &scaling, RT_TARGET_CLASSES, 64, &work, &err));
    set.count = COUNT;
    set.classes = NULL;
    CHECK_OK(rt_master_work_measure(&network, &set, &scaling, RT_TARGET_CLASSES, 0, &work, &err));
    CHECK(work.inputs > 0 && work.loss > 0);
    rt_network_destroy(&network);
}

TEST_MAIN()
