/*
 * Going on when a device is lost. The learner does without it (another view of the run), parameters and
 * optimizer state come from the newest checkpoint, or from the beginning where there is none yet, and the
 * updates since then are made again: with the same examples and the same arithmetic, so that the result is
 * the same.
 */
#include "run/training.h"

#include "base/clock.h"
#include "base/sentence.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool rt_training_can_recover(const struct rt_training *training, rt_status status) {
    return status == RT_LOST && training->learner.recover && training->run->lost > 0 &&
           !atomic_load(&training->run->stop);
}

/* Nothing that belongs to the view before is of use. */
static void recover_forget(struct rt_training *training) {
    rt_checkpoint_abandon(training->saving);
    training->saving = NULL;
    free(training->reports);
    free(training->before);
    free(training->run->views);
    training->reports = NULL;
    training->before = NULL;
    training->run->views = NULL;
    training->run->view_count = 0;
    training->training_since = training->step_end = 0;
    memset(&training->recent, 0, sizeof training->recent);
    training->recent.start = rt_clock_wall();
    training->tested_update = training->validation_update = UINT64_MAX;
}

/* Where the run goes on: what it spent until now stays counted. */
static rt_status recover_go_back(struct rt_training *training, struct rt_error *err) {
    struct rt_training_state *state = &training->state;
    const double setup_seconds = state->setup_seconds;
    if (training->checkpoint_dir && rt_checkpoint_exists(training->checkpoint_dir)) {
        RT_TRY(rt_training_restore(training, state, err));
    } else {
        *state = (struct rt_training_state){
            .best_loss = (double)INFINITY, .best_accuracy = (double)NAN, .setup_seconds = setup_seconds};
        RT_TRY(rt_training_start_parameters(training, err));
    }
    state->setup_seconds = setup_seconds;
    training->validated_before = state->validation_seconds; /* the nodes' clocks are new */
    return RT_OK;
}

static rt_status recover_try(struct rt_training *training, struct rt_error *err) {
    recover_forget(training);
    RT_TRY(training->learner.recover(training->learner.self, &training->learner, err));
    training->run->lost = 0;
    training->run->facts.nodes = training->learner.nodes;
    return recover_go_back(training, err);
}

static void recover_tell(struct rt_training *training, const char *how, uint64_t replayed, double seconds) {
    const uint64_t update = training->state.update, nodes = training->learner.nodes;
    const struct rt_field fields[] = {RT_TEXT("cause", how), RT_INT("nodes", nodes), RT_INT("update", update),
                                      RT_INT("replayed_updates", replayed), RT_REAL("seconds", seconds)};
    rt_journal_write(training->journal, "recovery", fields, sizeof fields / sizeof *fields);
    struct rt_error told;
    rt_fail(&told, RT_OK, "%.300s; continuing on %s after %.1f s, from update %llu; repeating %s", how,
            RT_COUNTED(nodes, "device"), seconds, (unsigned long long)update, RT_COUNTED(replayed, "update"));
    rt_training_warn(training, told.text);
}

rt_status rt_training_recover(struct rt_training *training, struct rt_error *err) {
    const struct rt_error how = *err;
    const double began = rt_clock_wall();
    const uint64_t before = training->state.update;
    rt_status status;
    do { /* another device may be lost meanwhile */
        training->recoveries.count++;
        status = recover_try(training, err);
    } while (rt_training_can_recover(training, status));
    if (status == RT_INTERRUPTED)
        return rt_training_stopped(training, err);
    if (status != RT_OK)
        return status;
    const uint64_t update = training->state.update, replayed = before > update ? before - update : 0;
    const double seconds = rt_clock_wall() - began;
    training->recoveries.seconds += seconds;
    training->recoveries.replayed += replayed;
    recover_tell(training, how.text, replayed, seconds);
    return RT_OK;
}
