/* From examples to a gradient: the core of every step of every learner that holds the whole model. */
#include "learn/gradient_work.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

rt_status rt_gradient_work_create(const struct rt_gradient_work_settings *settings,
                                  struct rt_gradient_work *work, struct rt_error *err) {
    struct rt_network *network = settings->network;
    const size_t micro = settings->micro_batch;
    struct rt_gradient_work made = {
        .network = network,
        .seed = settings->seed,
        .micro_batch = micro,
        .accuracy = rt_network_has_accuracy(network, settings->target == RT_TARGET_VALUES)};
    rt_status status = rt_floats_create(rt_model_slot_floats(network->model, micro, true),
                                        "the activations of a micro-batch", &made.slot, err);
    if (status == RT_OK)
        status = rt_floats_create(micro, "the losses", &made.losses, err);
    if (status == RT_OK && settings->set)
        status = rt_row_reader_create(network, settings->set, settings->scaling, settings->target, micro,
                                      &made.reader, err);
    if (status == RT_OK && settings->set && micro == 1)
        status = rt_row_reader_create(network, settings->set, settings->scaling, settings->target, micro,
                                      &made.next_feed, err);
    if (status != RT_OK)
        rt_gradient_work_destroy(&made);
    else
        *work = made;
    return status;
}

void rt_gradient_work_destroy(struct rt_gradient_work *work) {
    rt_row_reader_destroy(&work->reader);
    rt_row_reader_destroy(&work->next_feed);
    free(work->slot);
    free(work->losses);
    *work = (struct rt_gradient_work){0};
}

void rt_gradient_work_forget(struct rt_gradient_work *work) {
    work->begun = false;
}

/* The examples that are likely to follow `rows` rows of the batch from `first` on: those of the order, or the
 * same share of the next batch. NULL: unknown. */
static const uint32_t *gradient_work_find_next(const struct rt_gradient_order *order, size_t first,
                                               size_t rows, size_t *count) {
    const struct rt_batch *batch = order->batch;
    const size_t known = batch->rows + batch->following;
    const bool here = first + rows < order->end;
    const size_t at = here ? first + rows : batch->rows + order->first;
    const size_t left = here ? order->end - at : at < known ? known - at : 0;
    *count = left < rows ? left : rows;
    return *count ? batch->examples + at : NULL;
}

/* Reads rows of the batch from `first` on in the form that the network and its loss take. */
static const float *gradient_work_read_rows(struct rt_gradient_work *work,
                                            const struct rt_gradient_order *order, size_t first, size_t rows,
                                            struct rt_targets *targets) {
    const struct rt_network *network = work->network;
    const struct rt_received_rows *sent = order->sent;
    if (!sent) {
        size_t count;
        const uint32_t *next = gradient_work_find_next(order, first, rows, &count);
        if (!work->begun)
            rt_row_reader_take(&work->reader, &network->device, order->batch->examples + first, rows);
        rt_dataset_fetch(work->reader.set, next, count);
        *targets = work->reader.targets;
        return work->reader.x;
    }
    const size_t at = first - sent->first;
    *targets = (struct rt_targets){
        .classes = sent->targets.classes ? sent->targets.classes + at : NULL,
        .values = sent->targets.values ? sent->targets.values + at * network->outputs : NULL};
    return sent->x + at * network->inputs;
}

/* The backward of a single example whose gradient goes to the sink, together with the beginning of the next
 * example's forward, if the first layer supports that. */
static void gradient_work_backward_and_forward(struct rt_gradient_work *work,
                                               const struct rt_gradient_order *order,
                                               const struct rt_pass *pass, const float *x, uint32_t example) {
    struct rt_network *network = work->network;
    rt_row_reader_take(&work->next_feed, &network->device, &example, 1);
    struct rt_successor successor = {.x = work->next_feed.x};
    struct rt_grad_sink sink = *order->sink;
    sink.successor = &successor;
    rt_model_backward(network->model, pass, &network->blocks, work->slot, x, RT_BACKWARD_BOTH, NULL,
                      order->gradient, false, &sink);
    work->begun = successor.begun;
    work->cannot_begin = !successor.begun;
    work->begun_example = example;
    if (successor.begun) {
        const struct rt_row_reader reader = work->reader;
        work->reader = work->next_feed;
        work->next_feed = reader;
    }
}

/* One micro-batch: rows of the batch from `at` on, forward and backward. */
static rt_status gradient_work_micro_step(struct rt_gradient_work *work,
                                          const struct rt_gradient_order *order, size_t at, size_t rows,
                                          struct rt_gradient_sums *sums, struct rt_error *err) {
    struct rt_network *network = work->network;
    const bool first = at == order->first, last = at + rows == order->end;
    work->begun &= rows == 1 && work->begun_example == order->batch->examples[at];
    const struct rt_pass pass = {.device = &network->device,
                                 .rows = rows,
                                 .training = true,
                                 .seed = work->seed,
                                 .epoch = order->batch->epoch,
                                 .examples = order->batch->examples + at,
                                 .begun = work->begun};
    struct rt_layer_watch watch = {0};
    if (order->watch) {
        watch = (struct rt_layer_watch){.self = order->watch->self,
                                        .before = first ? order->watch->before : NULL,
                                        .after = last ? order->watch->after : NULL,
                                        .rising = order->watch->rising};
        network->blocks.watch = &watch;
    }
    struct rt_targets targets;
    const float *x = gradient_work_read_rows(work, order, at, rows, &targets);
    const float *y = rt_model_forward(network->model, &pass, &network->blocks, work->slot, x);
    work->begun = false;
    if (work->accuracy)
        sums->correct += rt_loss_correct(network->loss, rows, network->outputs, y, &targets);
    network->loss->evaluate(&network->device, rows, network->outputs, y, &targets, order->scale, work->losses,
                            rt_model_output_gradient(network->model, &pass, work->slot));
    for (size_t i = 0; i < rows; i++)
        sums->loss += (double)work->losses[i];
    work->ended(work->self, RT_STATE_FORWARD);
    rt_status status = RT_OK;
    /* Before anything is applied: the parameters stay those of the previous update. */
    if (!isfinite(sums->loss)) {
        status = rt_fail(err, RT_DIVERGED, "the loss is not finite at update %llu (epoch %u)",
                         (unsigned long long)order->update, order->batch->epoch + 1);
    } else {
        size_t next_count = 0;
        const uint32_t *next = gradient_work_find_next(order, at, rows, &next_count);
        if (first && last && order->sink && order->sink->descent && work->next_feed.set &&
            !work->cannot_begin && next_count > 0)
            gradient_work_backward_and_forward(work, order, &pass, x, *next);
        else
            rt_model_backward(network->model, &pass, &network->blocks, work->slot, x, RT_BACKWARD_BOTH, NULL,
                              order->gradient, !first, last ? order->sink : NULL);
        work->ended(work->self, RT_STATE_BACKWARD);
    }
    network->blocks.watch = NULL;
    return status;
}

rt_status rt_gradient_work_run(struct rt_gradient_work *work, const struct rt_gradient_order *order,
                               struct rt_gradient_sums *sums, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t at = order->first, rows; status == RT_OK && at < order->end; at += rows) {
        rows = order->end - at < work->micro_batch ? order->end - at : work->micro_batch;
        status = gradient_work_micro_step(work, order, at, rows, sums, err);
    }
    return status;
}
