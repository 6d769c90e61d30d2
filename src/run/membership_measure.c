/* How fast the devices of a run compute each layer. */
#include "run/membership.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "plan/plan.h"
#include "wire/tree.h"
#include <stdlib.h>
#include <string.h>

rt_status rt_membership_request_profile(struct rt_membership *membership, const struct rt_job *job,
                                        size_t member, size_t rows, struct rt_error *err) {
    const struct rt_profile profile = {.rows = (uint32_t)rows, .job = job->tree};
    uint8_t *bytes;
    rt_status status = RT_OK;
    RT_TRY(rt_alloc(RT_MAX_CONTROL, 1, "a message", &bytes, err));
    const size_t used = rt_profile_encode(&profile, bytes, RT_MAX_CONTROL);
    if (!used)
        status = rt_fail(err, RT_BAD_INPUT, "the description of the model is too long to be sent");
    else
        status = rt_cluster_request(membership->cluster, member, RT_MESSAGE_PROFILE, bytes, used, err);
    free(bytes);
    return status;
}

rt_status rt_membership_take_profile(struct rt_membership *membership, size_t member,
                                     struct rt_layer_times *times, size_t layers, struct rt_error *err) {
    struct rt_member *node = rt_cluster_member(membership->cluster, member);
    struct rt_profiled profiled;
    RT_TRY(rt_talk_expect(&node->talk, RT_MESSAGE_PROFILED, node->name, err));
    rt_status status = rt_profiled_decode(node->talk.body, node->talk.body_bytes, &profiled, err);
    rt_talk_next(&node->talk);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s", node->name);
    if (profiled.count != layers)
        status = rt_fail(err, RT_FAILED, "%s measured %s, but the model has %zu", node->name,
                         RT_COUNTED(profiled.count, "layer"), layers);
    else
        memcpy(times, profiled.layers, layers * sizeof *times);
    rt_profiled_deinit(&profiled);
    return status;
}

static rt_status membership_ask_profile(struct rt_membership *membership, const struct rt_job *job,
                                        size_t member, size_t rows, struct rt_layer_times *times,
                                        size_t layers, struct rt_error *err) {
    RT_TRY(rt_membership_request_profile(membership, job, member, rows, err));
    RT_TRY(rt_cluster_answer(membership->cluster, member, RT_MESSAGE_PROFILED, err));
    return rt_membership_take_profile(membership, member, times, layers, err);
}

rt_status rt_membership_measure(struct rt_membership *membership, const struct rt_measured *measured,
                                size_t rows, struct rt_layer_times *const *times, struct rt_error *err) {
    const size_t layers = measured->layers;
    rt_status status =
        rt_profile_measure(measured->job, measured->device, rows, 1, measured->memory, times[0], layers, err);
    for (size_t i = membership->devices - 1; status == RT_OK && i < membership->devices; i--) {
        const struct rt_member *member = i ? rt_cluster_member(membership->cluster, i - 1) : NULL;
        if (member && !member->local && !member->gone) {
            status = membership_ask_profile(membership, measured->job, i - 1, rows, times[i], layers, err);
            continue;
        }
        const double slowdown = rt_pace_factor(member ? &member->pace : &membership->pace, 1);
        for (size_t k = 0; k < layers; k++) {
            const struct rt_layer_times *one = &times[0][k];
            times[i][k] = (struct rt_layer_times){one->forward * slowdown, one->input * slowdown,
                                                  one->weights * slowdown, one->update * slowdown};
        }
    }
    return status;
}
