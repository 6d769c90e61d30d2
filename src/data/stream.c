/*
 * The ring buffer of a stream, the thread that fills it, and taking examples out; see stream.h.
 *
 * The ring has one slot more than it may hold examples. The reader decodes the next example into that
 * slot, which no other thread reads, and only then asks whether there is room. So an example is never
 * copied on its way in, and the overflow policy always decides about a complete, valid one. The memory has
 * the layout of a data set, and examples are taken from it as from a data set, with the same bits.
 */
#include "data/stream.h"

#include "base/memory.h"
#include "data/labels.h"
#include "data/store.h"
#include "data/stream_inlet.h"
#include "data/stream_record.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum overflow { OVERFLOW_BLOCK, OVERFLOW_DROP_NEW, OVERFLOW_DROP_OLD };
enum { MOST_EXAMPLES = 1 << 24 };

struct rt_stream {
    struct rt_inlet inlet;
    struct rt_decoder *decoder;
    enum rt_target target;
    enum overflow overflow;
    rt_stream_wake wake;
    void *context;
    pthread_t reader;
    bool started;

    struct rt_dataset ring; /* example i of it is slot i */
    float *inputs, *values; /* what ring points at */
    int32_t *classes;
    size_t slots;  /* one more than there may be examples */
    uint32_t *row; /* [slots]: the slots of what is being taken */
    size_t next;   /* the slot that the reader fills */

    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t room;
    size_t first, count; /* the examples that wait: slots first, first + 1, ... */
    size_t wanted;       /* wake when so many are there; 0: do not */
    bool ended, stopping;
    struct rt_error failure; /* status RT_OK: none */
    struct rt_stream_counters counters;
};

/* ---- options ------------------------------------------------------------------------------------------- */

struct settings {
    const char *from, *separator;
    int format, label, overflow;
    int64_t buffer, skip;
    bool insecure;
    const struct rt_tree *names;
};

static const char *const format_choices[] = {"csv", "f32", NULL};
static const char *const label_choices[] = {"first", "last", NULL};
static const char *const overflow_choices[] = {"block", "drop-new", "drop-old", NULL};

#define AT(field) offsetof(struct settings, field)
static const struct rt_option options[] = {
    {"from", RT_OPTION_TEXT, AT(from),
     .help = "-, a file or FIFO, tcp:HOST:PORT to connect to, or listen:HOST:PORT to accept one sender"},
    {"format", RT_OPTION_CHOICE, AT(format), "csv", .choices = format_choices,
     .help = "lines of CSV, or records of float32 with their length before them"},
    {"label", RT_OPTION_CHOICE, AT(label), "last", .choices = label_choices,
     .help = "csv: whether the class or the target values are the first columns or the last"},
    {"names", RT_OPTION_TREE, AT(names), .help = "the names of the classes, in their order"},
    {"separator", RT_OPTION_TEXT, AT(separator), "auto",
     .help = "csv: the character between fields, tab, space (any blanks), or auto"},
    {"skip", RT_OPTION_INT, AT(skip), "0", 0, 1e9,
     .help = "csv: lines to leave out before the first example"},
    {"overflow", RT_OPTION_CHOICE, AT(overflow), "block", .choices = overflow_choices,
     .help = "when the buffer is full: let the sender wait, or lose the new example, or the oldest"},
    {"buffer", RT_OPTION_INT, AT(buffer), "1024", 1, MOST_EXAMPLES,
     .help = "examples that may wait; at least a batch"},
    {"insecure", RT_OPTION_BOOL, AT(insecure), "false",
     .help = "listen beyond this machine: anyone may send"},
};
#undef AT

enum { OPTION_COUNT = sizeof options / sizeof *options };

static rt_status stream_read_settings(const struct rt_tree *tree, struct settings *settings,
                                      struct rt_error *err) {
    *settings = (struct settings){0};
    rt_status status = rt_options_read(options, OPTION_COUNT, "from", tree, "stream", settings, err);
    if (status != RT_OK)
        return status;
    const char *separator = settings->separator;
    bool word =
        strcmp(separator, "auto") == 0 || strcmp(separator, "tab") == 0 || strcmp(separator, "space") == 0;
    if (!settings->from || !*settings->from)
        return rt_tree_fail(tree, err, "stream: from must be given");
    if (!word && (strlen(separator) != 1 || strchr("\"\r\n", *separator)))
        return rt_tree_fail(rt_tree_get(tree, "separator"), err,
                            "stream: separator must be one character, tab, space or auto, not '%s'",
                            separator);
    return RT_OK;
}

/* ---- the reader ---------------------------------------------------------------------------------------- */

/* Adds the example in the next slot to the ring, or applies the overflow policy; false when the stream is
 * being closed. */
static bool stream_put(struct rt_stream *stream) {
    size_t most = stream->slots - 1;
    pthread_mutex_lock(&stream->mutex);
    while (stream->overflow == OVERFLOW_BLOCK && stream->count == most && !stream->stopping)
        pthread_cond_wait(&stream->room, &stream->mutex);
    bool stopping = stream->stopping, full = stream->count == most, due = false;
    if (!stopping) {
        stream->counters.read++;
        stream->counters.dropped += full;
        if (full && stream->overflow == OVERFLOW_DROP_OLD) {
            stream->first = (stream->first + 1) % stream->slots;
            stream->count--;
        }
        if (!full || stream->overflow == OVERFLOW_DROP_OLD) {
            stream->count++;
            stream->next = (stream->next + 1) % stream->slots;
        }
        due = stream->wanted > 0 && stream->count >= stream->wanted;
        stream->wanted = due ? 0 : stream->wanted;
    }
    pthread_mutex_unlock(&stream->mutex);
    if (due && stream->wake)
        stream->wake(stream->context);
    return !stopping;
}

/* Decodes all complete records. */
static rt_status stream_decode(struct rt_stream *stream, bool ended, bool *stopped, struct rt_error *err) {
    size_t inputs = stream->decoder->settings.inputs, width = stream->ring.value_width;
    for (bool found = true; found && !*stopped;) {
        struct rt_example example = {.inputs = stream->inputs + stream->next * inputs};
        if (stream->classes)
            example.class = stream->classes + stream->next;
        if (stream->values)
            example.values = stream->values + stream->next * width;
        rt_status status = rt_decoder_next(stream->decoder, ended, &example, &found, err);
        if (status != RT_OK)
            return status;
        *stopped = found && !stream_put(stream);
    }
    return RT_OK;
}

static void stream_finish(struct rt_stream *stream, const struct rt_error *failure) {
    pthread_mutex_lock(&stream->mutex);
    stream->ended = true;
    stream->failure = *failure;
    bool due = stream->wanted > 0 && !stream->stopping;
    stream->wanted = 0;
    pthread_mutex_unlock(&stream->mutex);
    if (due && stream->wake)
        stream->wake(stream->context);
}

static void *stream_reader_main(void *argument) {
    struct rt_stream *stream = argument;
    struct rt_error err = {.status = RT_OK};
    rt_status status = RT_OK;
    bool ended = false, stopped = false;
    while (status == RT_OK && !ended && !stopped) {
        size_t room, got = 0;
        uint8_t *space = rt_decoder_space(stream->decoder, &room);
        status = rt_inlet_read(&stream->inlet, space, room, &got, &stopped, &err);
        if (status != RT_OK || stopped)
            break;
        ended = got == 0;
        rt_decoder_add(stream->decoder, got);
        status = stream_decode(stream, ended, &stopped, &err);
    }
    err.status = status;
    stream_finish(stream, &err);
    return NULL;
}

/* Signals are left to the threads of the program. */
static rt_status stream_start_reader(struct rt_stream *stream, struct rt_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&stream->reader, NULL, stream_reader_main, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return rt_fail(err, RT_IO, "%s: cannot start the thread that reads it: %s", stream->inlet.name,
                       strerror(error));
    stream->started = true;
    return RT_OK;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

bool rt_stream_named(const struct rt_tree *source) {
    return source && source->kind == RT_TREE_MAP && source->count == 1 &&
           strcmp(source->items[0]->key, "stream") == 0;
}

rt_status rt_stream_describe(const struct rt_tree *source, const struct rt_data_wish *wish,
                             struct rt_dataset *set, struct rt_error *err) {
    struct rt_dataset made = {0};
    rt_status status = rt_store_create(&made.store, err);
    if (status == RT_OK)
        status = rt_names_read(rt_tree_get(source->items[0], "names"), wish, &made, err);
    if (status == RT_OK)
        *set = made;
    else
        rt_dataset_close(&made);
    return status;
}

static rt_status stream_create_ring(struct rt_stream *stream, const struct rt_data_wish *wish,
                                    size_t examples, struct rt_error *err) {
    struct rt_dataset *ring = &stream->ring;
    size_t inputs = rt_shape_size(&wish->input), slots = examples + 1;
    size_t width = wish->target == RT_TARGET_VALUES ? wish->outputs : 0;
    rt_status status = rt_memory_check((double)slots * ((double)inputs + (double)width + 2) * sizeof(float),
                                       "the buffer of the stream", err);
    if (status == RT_OK)
        status = rt_store_alloc(ring->store, slots, inputs * sizeof(float), "the buffer of the stream",
                                &stream->inputs, err);
    if (status == RT_OK && width)
        status = rt_store_alloc(ring->store, slots, width * sizeof(float), "the buffer of the stream",
                                &stream->values, err);
    if (status == RT_OK && wish->target == RT_TARGET_CLASSES)
        status = rt_store_alloc(ring->store, slots, sizeof(int32_t), "the buffer of the stream",
                                &stream->classes, err);
    if (status == RT_OK)
        status = rt_store_alloc(ring->store, slots, sizeof(uint32_t), "the buffer of the stream",
                                &stream->row, err);
    stream->slots = ring->count = slots;
    ring->shape = wish->input;
    ring->type = RT_DATA_F32;
    ring->inputs = stream->inputs;
    ring->values = stream->values;
    ring->value_width = width;
    ring->classes = stream->classes;
    return status;
}

static rt_status stream_create_decoder(struct rt_stream *stream, const struct settings *settings,
                                       const struct rt_data_wish *wish, struct rt_error *err) {
    struct rt_record_settings record = {.format = settings->format == 0 ? RT_RECORD_CSV : RT_RECORD_F32,
                                        .name = stream->inlet.name,
                                        .target = wish->target,
                                        .inputs = rt_shape_size(&wish->input),
                                        .outputs = wish->outputs,
                                        .names = &stream->ring,
                                        .label_first = settings->label == 0,
                                        .skip = (uint64_t)settings->skip};
    /* The first line is read when the run file's tree may be gone. */
    snprintf(record.separator, sizeof record.separator, "%s", settings->separator);
    return rt_decoder_create(&record, &stream->decoder, err);
}

static rt_status stream_open_parts(struct rt_stream *stream, const struct rt_source *source, size_t at_least,
                                   struct rt_error *err) {
    const struct rt_data_wish *wish = source->wish;
    struct settings settings;
    rt_status status = stream_read_settings(source->tree, &settings, err);
    if (status != RT_OK)
        return status;
    size_t examples = (size_t)settings.buffer > at_least ? (size_t)settings.buffer : at_least;
    const struct rt_tree *where = rt_tree_get(source->tree, "from");
    if (examples > MOST_EXAMPLES)
        return rt_tree_fail(source->tree, err, "the buffer of a stream has room for %d examples at most",
                            MOST_EXAMPLES);
    if (rt_shape_size(&wish->input) == 0 || (wish->target != RT_TARGET_INPUT && wish->outputs == 0))
        return rt_tree_fail(source->tree, err,
                            "a stream needs a model that says how many inputs and outputs there are");
    stream->overflow = (enum overflow)settings.overflow;
    stream->target = wish->target;
    status = rt_store_create(&stream->ring.store, err);
    if (status == RT_OK)
        status = rt_names_read(settings.names, wish, &stream->ring, err);
    if (status == RT_OK)
        status = stream_create_ring(stream, wish, examples, err);
    if (status == RT_OK)
        status = rt_inlet_open(source, where ? where : source->tree, settings.from, settings.insecure,
                               &stream->inlet, err);
    if (status == RT_OK)
        status = stream_create_decoder(stream, &settings, wish, err);
    return status == RT_OK ? stream_start_reader(stream, err) : status;
}

rt_status rt_stream_open(const struct rt_tree *source, const char *base_dir, const struct rt_data_wish *wish,
                         size_t at_least, rt_stream_wake wake, void *context, struct rt_stream **stream,
                         struct rt_error *err) {
    if (!rt_stream_named(source))
        return rt_tree_fail(source, err, "a stream is written like {stream: {from: \"-\", format: csv}}");
    struct rt_stream *made;
    rt_status status = rt_alloc(1, sizeof *made, "a stream", &made, err);
    if (status != RT_OK)
        return status;
    made->inlet = (struct rt_inlet){.fd = -1, .listener = -1, .stop = {-1, -1}};
    made->wake = wake;
    made->context = context;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->room, NULL);
    const struct rt_source place = {.tree = source->items[0], .base_dir = base_dir, .wish = wish};
    status = stream_open_parts(made, &place, at_least, err);
    if (status == RT_OK)
        *stream = made;
    else
        rt_stream_close(made);
    return status;
}

void rt_stream_close(struct rt_stream *stream) {
    if (!stream)
        return;
    if (stream->started) {
        pthread_mutex_lock(&stream->mutex);
        stream->stopping = true;
        pthread_cond_signal(&stream->room);
        pthread_mutex_unlock(&stream->mutex);
        rt_inlet_stop(&stream->inlet);
        pthread_join(stream->reader, NULL);
    }
    rt_decoder_destroy(stream->decoder);
    rt_inlet_close(&stream->inlet);
    rt_dataset_close(&stream->ring);
    pthread_cond_destroy(&stream->room);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

/* ---- taking -------------------------------------------------------------------------------------------- */

/* Copies the oldest n examples; the mutex is held, so that none is overwritten meanwhile. */
static void stream_copy_out(struct rt_stream *stream, size_t n, const struct rt_scaling *scaling,
                            const struct rt_device *device, float *x, int32_t *classes, float *values) {
    const struct rt_dataset *ring = &stream->ring;
    size_t inputs = stream->decoder->settings.inputs;
    for (size_t i = 0; i < n; i++)
        stream->row[i] = (uint32_t)((stream->first + i) % stream->slots);
    if (scaling)
        rt_dataset_inputs(ring, scaling, device, stream->row, n, x);
    for (size_t i = 0; i < n && !scaling; i++)
        memcpy(x + i * inputs, stream->inputs + stream->row[i] * inputs, inputs * sizeof *x);
    if (stream->target != RT_TARGET_INPUT)
        rt_dataset_targets(ring, scaling, stream->target, stream->row, n, classes, values);
    else if (values)
        memcpy(values, x, n * inputs * sizeof *x);
}

rt_status rt_stream_take(struct rt_stream *stream, size_t n, const struct rt_scaling *scaling,
                         const struct rt_device *device, float *x, int32_t *classes, float *values,
                         size_t *taken, struct rt_error *err) {
    rt_status status = RT_OK;
    size_t count = 0;
    if (n >= stream->slots)
        return rt_fail(err, RT_FAILED, "%s: %zu examples are asked for at once, but the buffer holds %zu",
                       stream->inlet.name, n, stream->slots - 1);
    pthread_mutex_lock(&stream->mutex);
    if (stream->count < n && !stream->ended) {
        stream->wanted = n;
    } else if (stream->count < n && stream->failure.status != RT_OK) {
        status = rt_fail(err, stream->failure.status, "%s", stream->failure.text);
    } else {
        count = n < stream->count ? n : stream->count;
        stream_copy_out(stream, count, scaling, device, x, classes, values);
        stream->first = (stream->first + count) % stream->slots;
        stream->count -= count;
        stream->counters.taken += count;
        pthread_cond_signal(&stream->room);
    }
    pthread_mutex_unlock(&stream->mutex);
    if (status == RT_OK)
        *taken = count;
    return status;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

size_t rt_stream_count(struct rt_stream *stream) {
    pthread_mutex_lock(&stream->mutex);
    size_t count = stream->count;
    pthread_mutex_unlock(&stream->mutex);
    return count;
}

bool rt_stream_ended(struct rt_stream *stream) {
    pthread_mutex_lock(&stream->mutex);
    bool ended = stream->ended;
    pthread_mutex_unlock(&stream->mutex);
    return ended;
}

rt_status rt_stream_status(struct rt_stream *stream, struct rt_error *err) {
    pthread_mutex_lock(&stream->mutex);
    struct rt_error failure = stream->failure;
    pthread_mutex_unlock(&stream->mutex);
    return failure.status == RT_OK ? RT_OK : rt_fail(err, failure.status, "%s", failure.text);
}

struct rt_stream_counters rt_stream_counters(struct rt_stream *stream) {
    pthread_mutex_lock(&stream->mutex);
    struct rt_stream_counters counters = stream->counters;
    pthread_mutex_unlock(&stream->mutex);
    return counters;
}

const char *rt_stream_name(const struct rt_stream *stream) {
    return stream->inlet.name;
}

const char *rt_stream_address(const struct rt_stream *stream) {
    return stream->inlet.address;
}

const char *const *rt_stream_names(const struct rt_stream *stream, size_t *count) {
    *count = stream->ring.class_names ? stream->ring.class_count : 0;
    return stream->ring.class_names;
}
