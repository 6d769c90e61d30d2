/*
 * train.drop_last: the incomplete batch at the end of an epoch is left out, of every count that depends on
 * it; and batch normalisation, which needs it most: a single example is refused where it can be known, and
 * never takes the running variance away.
 */
#include "learn/batches.h"
#include "nn/model.h"
#include "numeric/rig.h"
#include "run/exchange/samples.h"
#include "support/site.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>

/* ---- batches ---- */

/* Against all micro-batches, one by one. */
static size_t fewest_by_hand(size_t examples, size_t batch, bool drop_last, size_t slices, size_t micro) {
    struct rt_error err;
    struct rt_batches batches;
    size_t fewest = SIZE_MAX;
    CHECK(rt_batches_create(1, examples, batch, false, drop_last, &batches, &err) == RT_OK);
    for (uint64_t u = 1; u <= batches.per_epoch; u++) {
        struct rt_batch at;
        rt_batches_at(&batches, u, &at);
        for (size_t s = 0; s < slices; s++)
            for (size_t i = s * at.rows / slices, end = (s + 1) * at.rows / slices; i < end;) {
                const size_t rows = micro && end - i > micro ? micro : end - i;
                fewest = rows < fewest ? rows : fewest;
                i += rows;
            }
    }
    rt_batches_destroy(&batches);
    return fewest;
}

TEST(batches_are_counted) {
    for (size_t examples = 1; examples <= 24; examples++)
        for (size_t batch = 1; batch <= 25; batch++)
            for (int drop = 0; drop < 2; drop++) {
                struct rt_error err;
                struct rt_batches batches;
                struct rt_batch last;
                CHECK_OK(rt_batches_create(1, examples, batch, true, drop, &batches, &err));
                CHECK(batches.per_epoch == rt_batches_count(examples, batch, drop));
                rt_batches_at(&batches, 3 * batches.per_epoch, &last);
                const size_t whole = batch < examples ? batch : examples;
                CHECK(last.epoch == 2 &&
                      (drop || examples % whole == 0 ? last.rows == whole : last.rows == examples % whole));
                rt_batches_destroy(&batches);
                for (size_t slices = 1; slices <= 8; slices++)
                    for (size_t micro = 0; micro <= 6; micro++)
                        CHECK(rt_batches_fewest(examples, batch, drop, slices, micro) ==
                              fewest_by_hand(examples, batch, drop, slices, micro));
            }
}

/* What a worker expects to be sent. */
TEST(parts_are_those_of_whole_batches) {
    struct rt_sample_layout layout = {.examples = 23, .batch = 5, .inputs = 3, .drop_last = true};
    for (uint64_t number = 1; number <= 9; number++) {
        size_t first;
        layout.part = rt_slices_equal_part(1, 2, 0);
        CHECK(rt_sample_layout_rows(&layout, number, &first) == 2 && first == 0);
        layout.part = rt_slices_equal_part(1, 2, 1);
        CHECK(rt_sample_layout_rows(&layout, number, &first) == 3 && first == 2);
    }
}

/* ---- runs: 150 examples in batches of 16 are 9, and one of 6 ---- */

static const char *const dropping[] = {"train.drop_last=true", "data.hold_out=0.2", "data.split=0",
                                       "data.limit=125", NULL}; /* 100 are left: 6 batches of 16 */

TEST(a_run_leaves_them_out) {
    struct rt_error err;
    struct rt_result all, whole, broken;
    struct site_watch watch;
    site_make();
    CHECK_OK(site_train("all", NULL, false, 0, &all, NULL, &err));
    CHECK(all.updates == 4 * 10 && all.samples == 4 * 150);
    CHECK_OK(site_train("whole", dropping, false, 0, &whole, &watch, &err));
    CHECK(whole.updates == 4 * 6 && whole.samples == 4 * 96);
    CHECK(watch.validations == 4);
    CHECK(site_train("broken", dropping, false, 8, &broken, NULL, &err) == RT_INTERRUPTED);
    CHECK_OK(site_train("broken", dropping, true, 0, &broken, NULL, &err));
    CHECK(strcmp(whole.params_sha256, broken.params_sha256) == 0 && broken.updates == whole.updates);
    /* It belongs to the run. */
    CHECK(site_train("whole", dropping + 1, true, 0, &broken, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "train.drop_last"), "%s", err.text);
    site_remove();
}

/* ---- batch normalisation ---- */

#define FLAT  "model.layers=[{dense: 8}, {residual: [batchnorm]}, relu, {dense: 3}]"
#define PLAIN "model.layers=[{dense: 8}, relu, {dense: 3}]"

TEST(a_single_example_is_refused) {
    static const struct {
        const char *settings[8], *said; /* said NULL: it trains */
    } cases[] = {
        {{FLAT}, NULL},
        {{FLAT, "data.limit=49"}, "train.drop_last"},
        {{FLAT, "data.limit=49", "train.drop_last=true"}, NULL},
        {{FLAT, "data.limit=1"}, "single example"},
        {{FLAT, "train.batch=1"}, "single example"},
        {{FLAT, "train.micro_batch=1"}, "train.micro_batch is 1"},
        {{FLAT, "train.micro_batch=5"}, "train.micro_batch is 5"}, /* 16 are 3 times 5 and 1 */
        {{FLAT, "train.shards=16"}, "cut into 16"},
        {{FLAT, "train.shards=4"}, "train.drop_last"}, /* the last batch is of 6: 1, 2, 1 and 2 */
        {{FLAT, "train.shards=4", "train.drop_last=true"}, NULL},
        {{FLAT, "cluster.strategy=ring-one"}, "single example"},
        {{PLAIN, "train.batch=1", "data.limit=10"}, NULL}, /* nothing measures */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.text = ""};
        struct rt_result result;
        const char *settings[10] = {"train.epochs=1"};
        for (size_t k = 0; k < 8; k++)
            settings[k + 1] = cases[i].settings[k];
        site_make();
        const rt_status status = site_train("out", settings, false, 0, &result, NULL, &err);
        if (cases[i].said)
            CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].said), "case %zu: %s", i, err.text);
        else
            CHECK_MSG(status == RT_OK, "case %zu: %s", i, err.text);
        site_remove();
    }
}

/* Where it cannot be known (the end of a stream) it happens: then the variance stays what it was. A picture
 * has many numbers in a channel, so one alone is as good as any. */
TEST(the_running_variance_does_not_decay) {
    static const struct {
        const char *input;
        bool decays;
    } cases[] = {{"[3]", false}, {"[3, 2, 2]", true}};
    for (size_t i = 0; i < 2; i++) {
        struct rt_error err;
        struct rig rig;
        CHECK_OK(rig_open(&rig, cases[i].input, "[batchnorm]", 1, RT_MATH_REFERENCE, "auto", 1, &err));
        CHECK(rt_model_needs_several_rows(rig.model) == !cases[i].decays);
        float x[12];
        for (size_t k = 0; k < 12; k++)
            x[k] = 2;
        const struct rt_pass pass = {.device = &rig.device, .rows = 1, .training = true};
        struct rt_blocks blocks = rig.blocks;
        for (size_t k = 0; k < 200; k++)
            rt_model_forward(rig.model, &pass, &blocks, rig.slot, x);
        for (size_t c = 0; c < 3; c++) {
            CHECK(fabsf(blocks.buffers[c] - 2) < 1e-3f);
            CHECK(cases[i].decays ? blocks.buffers[3 + c] < 1e-3f : blocks.buffers[3 + c] == 1);
        }
        rig_close(&rig);
    }
}

TEST_MAIN()
