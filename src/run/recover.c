/*
 * Going on in another view of the run. When a device is lost the learner does without it, parameters and
 * optimizer state come from replicas, else from the newest checkpoint, or from the beginning where there is
 * none yet, and the updates since then are made again: with the same examples and the same arithmetic, so
 * that the result is the same. When another view is only better (a device came back, or became slower) the
 * state is replicated first, and no update is made again.
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

rt_status rt_training_stop_without_view(struct rt_training *training, struct rt_error *err) {
    struct rt_error unwritten;
    if (rt_training_save_image(training, &unwritten) != RT_OK)
        rt_training_warn(training, unwritten.text);
    return rt_training_stopped(training, err);
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

/* Of a stream: which examples come again, and how many do not. */
static void recover_rewind(struct rt_training *training) {
    const struct rt_learner *learner = &training->learner;
    const struct rt_training_state *state = &training->state;
    if (!learner->rewind)
        return;
    struct rt_recovery *recovery = &training->recoveries.recovery[training->recoveries.count - 1];
    const struct rt_rewound rewound = learner->rewind(learner->self, state->update);
    const uint64_t lost = rewound.examples - (state->samples - training->first_samples);
    recovery->rows_lost += lost - training->recoveries.rows_lost;
    training->recoveries.rows_lost = lost;
    if (recovery->reached > state->update + rewound.updates)
        recovery->reached = state->update + rewound.updates;
}

/* Where the run goes on: what it spent until now stays counted. from: what the state is that of. */
static rt_status recover_go_back(struct rt_training *training, uint64_t version, const char **from,
                                 struct rt_error *err) {
    struct rt_training_state *state = &training->state;
    const struct rt_training_state spent = *state;
    const struct rt_training_state *replica = version > 0 ? rt_training_replica(training, version) : NULL;
    if (version == 0)
        RT_TRY(rt_training_restore_image(training, training->saved_update, &replica, err));
    else if (!replica)
        return rt_fail(err, RT_FAILED, "the state of update %llu is back, which no replica was made of",
                       (unsigned long long)version);
    if (replica) {
        *state = *replica;
        *from = "replica";
    } else if (training->checkpoint_dir && rt_checkpoint_exists(training->checkpoint_dir)) {
        RT_TRY(rt_training_restore(training, state, err));
        *from = "checkpoint";
    } else {
        *state = (struct rt_training_state){.best_loss = (double)INFINITY, .best_accuracy = (double)NAN};
        RT_TRY(rt_training_start_parameters(training, err));
        training->replicas.update = training->replicas.count = 0;
        *from = "start";
    }
    state->setup_seconds = spent.setup_seconds;
    state->step_seconds = spent.step_seconds;
    state->validation_seconds = spent.validation_seconds;
    training->validated_before = state->validation_seconds; /* the nodes' clocks are new */
    recover_rewind(training);
    training->view_update = state->update;
    return RT_OK;
}

/* One that is older than the newest checkpoint is of no use. */
static struct rt_versions recover_versions(const struct rt_training *training) {
    struct rt_versions known = {.count = 0};
    for (size_t i = training->replicas.count; i-- > 0;)
        if (training->replicas.state[i].update >= training->saved_update)
            known.version[known.count++] = training->replicas.state[i].update;
    return known;
}

/* What it goes on with is replicated at once: another device may be lost. */
static rt_status recover_try(struct rt_training *training, struct rt_recovered *recovered, const char **from,
                             struct rt_error *err) {
    struct rt_learner *learner = &training->learner;
    const struct rt_versions known = recover_versions(training);
    *recovered = (struct rt_recovered){0};
    recover_forget(training);
    const rt_status status = learner->recover(learner->self, learner, &known, recovered, err);
    training->run->too_few = recovered->too_few;
    if (status == RT_OK || recovered->too_few)
        training->run->lost = 0;
    if (status != RT_OK)
        return status;
    training->run->facts.nodes = learner->nodes;
    RT_TRY(recover_go_back(training, recovered->version, from, err));
    const bool is_replicated = !learner->replicate && training->state.update == training->replicas.update;
    return training->state.update > 0 && !is_replicated ? rt_training_replicate(training, 0, err) : RT_OK;
}

static void recover_journal(struct rt_training *training, const struct rt_recovery *recovery) {
    const struct rt_field fields[] = {RT_TEXT("cause", recovery->cause),
                                      RT_INT("nodes", recovery->nodes),
                                      RT_TEXT("from", recovery->from),
                                      RT_INT("update", recovery->update),
                                      RT_INT("replayed_updates", recovery->replayed),
                                      RT_INT("rows_lost", recovery->rows_lost),
                                      RT_INT("bytes", recovery->bytes),
                                      RT_REAL("seconds", recovery->seconds)};
    rt_journal_write(training->journal, recovery->lost ? "recovery" : "view", fields,
                     sizeof fields / sizeof *fields);
}

void rt_training_note_new_update(struct rt_training *training) {
    if (training->recoveries.count == 0)
        return;
    struct rt_recovery *last = &training->recoveries.recovery[training->recoveries.count - 1];
    if (!isnan(last->new_seconds) || training->state.update <= last->reached)
        return;
    last->new_seconds = rt_clock_wall() - last->began;
    const struct rt_field fields[] = {RT_INT("update", training->state.update),
                                      RT_REAL("seconds", last->new_seconds)};
    rt_journal_write(training->journal, "new_update", fields, sizeof fields / sizeof *fields);
}

static void recover_tell(struct rt_training *training, const struct rt_recovery *recovery,
                         const char *taken) {
    struct rt_error told;
    rt_fail(&told, RT_OK, "%.400s%s%s; continuing on %s after %.1f s, from update %llu", recovery->cause,
            *taken ? "; " : "", taken, RT_COUNTED(recovery->nodes, "device"), recovery->seconds,
            (unsigned long long)recovery->update);
    if (recovery->lost)
        rt_fail_more(&told, RT_OK, " (%s); repeating %s", recovery->from,
                     RT_COUNTED(recovery->replayed, "update"));
    if (recovery->rows_lost)
        rt_fail_more(&told, RT_OK, "; %s of the stream %s lost", RT_COUNTED(recovery->rows_lost, "example"),
                     recovery->rows_lost == 1 ? "is" : "are");
    rt_training_warn(training, told.text);
}

/* Room for one more, before anything is done. */
static rt_status recover_note(struct rt_training *training, const struct rt_error *how, bool lost,
                              struct rt_error *err) {
    const size_t count = training->recoveries.count;
    struct rt_recovery *more =
        realloc(training->recoveries.recovery, (count + 1) * sizeof *training->recoveries.recovery);
    if (!more)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to go on after this: %.400s", how->text);
    training->recoveries.recovery = more;
    more[count] = (struct rt_recovery){.cause = strdup(how->text),
                                       .lost = lost,
                                       .reached = training->state.update,
                                       .began = rt_clock_wall(),
                                       .new_seconds = (double)NAN};
    if (!more[count].cause)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to go on after this: %.400s", how->text);
    training->recoveries.count++;
    return RT_OK;
}

/* Something else has happened meanwhile. */
static rt_status recover_note_more(struct rt_recovery *recovery, const char *what, struct rt_error *err) {
    char *cause = rt_training_text("%s; %s", recovery->cause, what);
    if (!cause)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to go on after this: %.400s", recovery->cause);
    free(recovery->cause);
    recovery->cause = cause;
    return RT_OK;
}

/* Other devices were found to be lost while the view was formed. */
static rt_status recover_note_further(struct rt_training *training, struct rt_recovery *recovery,
                                      const struct rt_recovered *recovered, struct rt_error *err) {
    if (recovered->further == 0)
        return RT_OK;
    training->recoveries.losses += recovered->further;
    recovery->lost = true;
    return recover_note_more(recovery, recovered->without, err);
}

/* Attempts until one succeeds: another device may be lost in each of them. */
static rt_status recover_try_on(struct rt_training *training, struct rt_recovery *recovery,
                                struct rt_recovered *recovered, struct rt_error *err) {
    for (;;) {
        const rt_status status = recover_try(training, recovered, &recovery->from, err);
        const struct rt_error why = *err;
        RT_TRY(recover_note_further(training, recovery, recovered, err));
        *err = why;
        if (!rt_training_can_recover(training, status))
            return status;
        training->recoveries.losses++;
        recovery->lost = true;
        RT_TRY(recover_note_more(recovery, why.text, err));
    }
}

/* how: what was lost, or why another view is better. */
static rt_status recover_go_on(struct rt_training *training, const struct rt_error *how, bool lost,
                               struct rt_error *err) {
    const struct rt_learner *learner = &training->learner;
    struct rt_recovered recovered;
    rt_status status;
    rt_training_count_training(training);
    RT_TRY(recover_note(training, how, lost, err));
    struct rt_recovery *recovery = &training->recoveries.recovery[training->recoveries.count - 1];
    training->recoveries.losses += lost;
    status = recover_try_on(training, recovery, &recovered, err);
    if (status == RT_INTERRUPTED)
        return rt_training_stop_without_view(training, err);
    if (recovered.too_few) {
        const struct rt_error why = *err;
        return rt_fail(err, RT_LOST, "%.300s; %.650s", recovery->cause, why.text);
    }
    if (status != RT_OK)
        return status;
    recovery->update = training->state.update;
    recovery->nodes = learner->nodes;
    recovery->replayed = recovery->reached > recovery->update ? recovery->reached - recovery->update : 0;
    recovery->bytes = learner->moved ? learner->moved(learner->self) : 0;
    recovery->seconds = rt_clock_wall() - recovery->began;
    recover_journal(training, recovery);
    recover_tell(training, recovery, recovered.taken);
    return RT_OK;
}

rt_status rt_training_recover(struct rt_training *training, struct rt_error *err) {
    const struct rt_error how = *err;
    return recover_go_on(training, &how, true, err);
}

rt_status rt_training_change_view(struct rt_training *training, const struct rt_error *why,
                                  struct rt_error *err) {
    RT_TRY(rt_training_replicate(training, 0, err));
    if (training->replicas.without_images)
        return RT_OK; /* there is no state to begin the other view with */
    return recover_go_on(training, why, false, err);
}
