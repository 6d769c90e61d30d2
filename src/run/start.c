/* The parameters that a run starts from, where they are not those of the seed. */
#include "run/training.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that another program made may have a matrix the other way round. */
static rt_status start_doubt(struct rt_training *training, const char *path, struct rt_error *err) {
    char name[64];
    RT_TRY(rt_modelfile_doubt(path, training->run->trained.network.model, name, err));
    if (name[0])
        rt_training_notice(
            training,
            "%s was not written by ringtmp: the square '%s' is taken as [inputs, units], but PyTorch "
            "keeps a Linear's weight as [units, inputs]; docs/outputs.md has the conversion",
            path, name);
    return RT_OK;
}

/* The checkpoint before that one; NULL: it is none, or memory is short. */
static char *start_name_previous(const char *path) {
    static const char newest[] = "/state.safetensors";
    const size_t length = strlen(path), end = sizeof newest - 1;
    if (length < end || strcmp(path + length - end, newest) != 0)
        return NULL;
    return rt_training_text("%.*s/previous.safetensors", (int)(length - end), path);
}

/* Instead of a checkpoint that is damaged; why: how. */
static rt_status start_load_previous(struct rt_training *training, const char *path, struct rt_error *err) {
    const struct rt_error why = *err;
    struct rt_error ignored, told;
    char *previous = start_name_previous(path);
    const rt_status status =
        previous ? rt_modelfile_load(previous, &training->learner.model_state, 0, NULL, &ignored) : RT_FAILED;
    if (status == RT_OK) {
        rt_fail(&told, RT_OK, "model.init cannot be used (%.450s); %.400s is", why.text, previous);
        rt_training_warn(training, told.text);
    }
    free(previous);
    return status == RT_OK ? RT_OK : rt_fail(err, why.status, "%s", why.text);
}

static rt_status start_load_from(struct rt_training *training, const char *path, struct rt_error *err) {
    const rt_status status = rt_modelfile_load(path, &training->learner.model_state, 0, NULL, err);
    if (status == RT_BAD_INPUT)
        return start_load_previous(training, path, err);
    return status == RT_OK ? start_doubt(training, path, err) : status;
}

/* model.init: as given, else relative to the run file, as data files are. */
rt_status rt_training_start_parameters(struct rt_training *training, struct rt_error *err) {
    const char *init = training->spec->model.init;
    if (!init)
        return RT_OK;
    if (init[0] == '/' || access(init, F_OK) == 0)
        return start_load_from(training, init, err);
    char *path = rt_training_text("%s/%s", training->spec->base_dir, init);
    if (!path)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", init);
    rt_status status = start_load_from(training, path, err);
    free(path);
    return status;
}
