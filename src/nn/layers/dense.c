/*
 * Dense: y = x W + b, with W [in][out] row-major.
 *
 * A network of dense layers spends its time here and in the product below. The weights are kept packed for
 * the product between updates, once as W for the forward and once as its transpose for the input gradient.
 * The weight gradient is computed in blocks of whole rows that stay in the cache: a finished block is
 * handed to the sink at once, so an optimizer works on numbers that were just written, and unless
 * something has to be added up the block need not go to main memory at all.
 */
#include "base/memory.h"
#include "nn/layers/layers.h"

struct dense_settings {
    int64_t units;
    bool bias;
    int init; /* enum rt_weight_init */
};

static const struct rt_option dense_options[] = {
    {.name = "units",
     .kind = RT_OPTION_INT,
     .offset = offsetof(struct dense_settings, units),
     .min = 1,
     .max = 1 << 30,
     .help = "outputs"},
    {.name = "bias",
     .kind = RT_OPTION_BOOL,
     .offset = offsetof(struct dense_settings, bias),
     .fallback = "true",
     .help = "whether each output has a bias"},
    {.name = "init",
     .kind = RT_OPTION_CHOICE,
     .offset = offsetof(struct dense_settings, init),
     .fallback = "he",
     .choices = rt_weight_init_names,
     .help = "initial weights"},
};

/* Floats of a block of the weight gradient: few enough to stay in the second-level cache until the sink takes
 * them; blocks for the first level are so many that handing them over costs more than it saves. */
enum { BLOCK_FLOATS = 16384, BLOCK_ROWS = 28 };

/* Outputs from which on a single example's gradient stays in its two factors: narrower rows do not fill a
 * vector each, and are better multiplied out and updated as one span. */
enum { OUTPUTS_FOR_FACTORS = 16 };

/* Multiplications in a weight gradient that make it worth waking other threads. */
#define WORK_TO_SPLIT 200000.0

static size_t dense_block_rows(size_t in, size_t out) {
    size_t rows = BLOCK_FLOATS / out / BLOCK_ROWS * BLOCK_ROWS;
    rows = rows ? rows : BLOCK_ROWS; /* a multiple of the rows that any kernel takes at a time */
    return rows < in ? rows : in;
}

/* The offset of a block in a thread's scratch memory: after what the product needs itself. */
static size_t dense_block_offset(const struct rt_kernels *kernels) {
    return rt_round_up(kernels->gemm_scratch, RT_ALIGN);
}

static size_t dense_packed_floats(const struct rt_layer *layer, size_t k, size_t n) {
    return rt_round_up(layer->kernels->packed_floats(k, n), RT_ALIGN_FLOATS);
}

static size_t dense_work(const struct rt_layer *layer, size_t rows) {
    return layer->kernels->packed_floats(rows, layer->out.dim[0]);
}

static rt_status dense_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    const struct dense_settings *settings = layer->settings;
    char text[96];
    if (layer->in.rank != 1)
        return rt_tree_fail(spec, err, "dense wants a flat input but gets %s: put `flatten` before it",
                            rt_shape_text(&layer->in, text));
    size_t in = layer->in.dim[0], out = (size_t)settings->units;
    layer->out = (struct rt_shape){.rank = 1, .dim = {out}};
    rt_status status =
        rt_layer_add_param(layer, spec, "weight", &(struct rt_shape){.rank = 2, .dim = {in, out}}, err);
    if (status == RT_OK && settings->bias)
        status = rt_layer_add_param(layer, spec, "bias", &layer->out, err);
    if (status != RT_OK)
        return status;
    layer->prepared_floats = dense_packed_floats(layer, in, out);
    if (layer->input_gradient)
        layer->prepared_floats += dense_packed_floats(layer, out, in);
    layer->scratch_bytes =
        dense_block_offset(layer->kernels) + dense_block_rows(in, out) * out * sizeof(float);
    layer->work_floats = dense_work;
    layer->flops_forward = layer->flops_weights = 2.0 * (double)in * (double)out;
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    layer->absorbs = true;
    return RT_OK;
}

static void dense_init(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers) {
    (void)buffers;
    const struct dense_settings *settings = layer->settings;
    size_t in = layer->in.dim[0], out = layer->out.dim[0];
    rt_layer_init_weights(layer, (enum rt_weight_init)settings->init, seed, 0, in, out, in * out, params);
    for (size_t i = in * out; i < layer->param_count; i++)
        params[i] = 0;
}

static void dense_prepare(const struct rt_layer *layer, const struct rt_device *device, const float *params,
                          float *prepared) {
    size_t in = layer->in.dim[0], out = layer->out.dim[0];
    if (layer->prepared_floats == 0)
        return;
    rt_pack(device, in, out, params, out, 1, prepared);
    if (layer->input_gradient)
        rt_pack(device, out, in, params, 1, out, prepared + dense_packed_floats(layer, in, out));
}

static void dense_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                          const struct rt_layer_memory *memory, const float *x, float *y) {
    const struct dense_settings *settings = layer->settings;
    size_t in = layer->in.dim[0], out = layer->out.dim[0];
    struct rt_gemm g = {
        .m = pass->rows,
        .n = out,
        .k = in,
        .a = x,
        .a_row = in,
        .a_col = 1,
        .b = memory->params,
        .b_row = out,
        .b_col = 1,
        .b_packed = layer->prepared_floats ? memory->prepared : NULL,
        .c = y,
        .c_row = out,
        .bias = settings->bias ? memory->params + in * out : NULL,
        .act = layer->act,
        .act_arg = layer->act_arg,
    };
    rt_gemm(pass->device, &g);
}

static void dense_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                 const struct rt_layer_memory *memory, const float *x, const float *y,
                                 const float *dy, float *dx) {
    (void)x, (void)y;
    size_t in = layer->in.dim[0], out = layer->out.dim[0];
    bool packed = memory->prepared && layer->prepared_floats;
    struct rt_gemm g = {
        .m = pass->rows,
        .n = in,
        .k = out,
        .a = dy,
        .a_row = out,
        .a_col = 1,
        .b = memory->params,
        .b_row = 1,
        .b_col = out,
        .b_packed = packed ? memory->prepared + dense_packed_floats(layer, in, out) : NULL,
        .c = dx,
        .c_row = in,
    };
    rt_gemm(pass->device, &g);
}

struct weights_job {
    const struct rt_kernels *kernels;
    const struct rt_grad_sink *sink;
    size_t in, out, block;
    size_t count;                       /* micro-batches, */
    const struct rt_gemm_piece *pieces; /* their inputs and gradients */
    float *grads;
    bool accumulate;
    bool single; /* one example, and the sink is a descent: the gradient's two factors do */
};

/* Makes blocks begin..end-1 of the weight gradient: rows of X^T dY. */
static void dense_weight_blocks(void *argument, size_t begin, size_t end, void *scratch) {
    const struct weights_job *job = argument;
    const bool through_scratch = job->sink && !job->accumulate;
    for (size_t b = begin; b < end; b++) {
        size_t first = b * job->block;
        size_t count = job->in - first < job->block ? job->in - first : job->block;
        if (job->single) {
            struct rt_descent descent = *job->sink->descent;
            descent.w += first * job->out;
            descent.v = descent.v ? descent.v + first * job->out : NULL;
            job->kernels->descend(&descent, count, job->out, job->pieces[0].a + first, job->pieces[0].b, NULL,
                                  NULL);
            continue;
        }
        float *block = job->grads + first * job->out;
        if (through_scratch)
            block = (float *)(void *)((char *)scratch + dense_block_offset(job->kernels));
        struct rt_gemm_piece more[RT_MAX_WAITING];
        for (size_t w = 1; w < job->count; w++) {
            more[w - 1] = job->pieces[w];
            more[w - 1].a += first;
        }
        struct rt_gemm g = {
            .m = count,
            .n = job->out,
            .k = job->pieces[0].k,
            .a = job->pieces[0].a + first,
            .a_row = 1,
            .a_col = job->in,
            .b = job->pieces[0].b,
            .b_row = job->out,
            .b_col = 1,
            .b_packed = job->pieces[0].b_packed,
            .c = block,
            .c_row = job->out,
            .accumulate = job->accumulate,
            .more = more,
            .more_count = job->count - 1,
        };
        job->kernels->gemm(&g, scratch);
        if (job->sink)
            job->sink->take(job->sink->self, first * job->out, count * job->out, block);
    }
}

/* The weights of a single example, whose bias is updated already, and the forward of the next. */
static void dense_begin_successor(const struct rt_layer *layer, const struct rt_waiting *at,
                                  const struct rt_grad_sink *sink) {
    const struct dense_settings *settings = layer->settings;
    const size_t in = layer->in.dim[0], out = layer->out.dim[0];
    struct rt_successor *successor = sink->successor;
    for (size_t j = 0; j < out; j++)
        successor->y[j] = settings->bias ? sink->descent->w[in * out + j] : 0;
    layer->kernels->descend(sink->descent, in, out, at->x, at->dy, successor->x, successor->y);
    if (layer->act != RT_ACT_NONE)
        layer->kernels->activate(layer->act, layer->act_arg, out, successor->y, successor->y);
    successor->begun = true;
}

/* The rows of all micro-batches form one sum. Each packs its gradients into its own work memory, where the
 * product finds them. */
static void dense_merge_weights(const struct rt_layer *layer, size_t count, const struct rt_waiting *waiting,
                                float *grads, bool accumulate, const struct rt_grad_sink *sink) {
    const struct dense_settings *settings = layer->settings;
    const struct rt_kernels *kernels = layer->kernels;
    const struct rt_device *device = waiting[0].pass->device;
    size_t in = layer->in.dim[0], out = layer->out.dim[0], rows = 0;
    struct rt_gemm_piece pieces[RT_MAX_WAITING];
    struct weights_job job = {.kernels = kernels,
                              .sink = sink,
                              .in = in,
                              .out = out,
                              .block = dense_block_rows(in, out),
                              .count = count,
                              .pieces = pieces,
                              .grads = grads,
                              .accumulate = accumulate};
    for (size_t w = 0; w < count; w++)
        rows += waiting[w].pass->rows;
    /* Waking threads pays off only for some work; then each should get a block. */
    bool split = (double)in * (double)out * (double)rows >= WORK_TO_SPLIT;
    size_t threads = rt_pool_threads(device->pool);
    size_t share = rt_round_up((in + threads - 1) / threads, BLOCK_ROWS);
    if (split && share < job.block)
        job.block = share;
    size_t blocks = (in + job.block - 1) / job.block;
    job.single = rows == 1 && out >= OUTPUTS_FOR_FACTORS && !accumulate && sink && sink->descent;
    bool packs = (blocks > 1 || count > 1) && !job.single && kernels->packed_floats(rows, out);
    for (size_t w = 0; w < count; w++) {
        const size_t k = waiting[w].pass->rows;
        pieces[w] = (struct rt_gemm_piece){.k = k, .a = waiting[w].x, .b = waiting[w].dy};
        if (packs) {
            rt_pack(device, k, out, waiting[w].dy, out, 1, waiting[w].memory.work);
            pieces[w].b_packed = waiting[w].memory.work;
        }
    }
    if (settings->bias) { /* first: the successor's sums start with it */
        float *bias = grads + in * out;
        for (size_t w = 0; w < count; w++)
            kernels->column_sum(waiting[w].pass->rows, out, waiting[w].dy, accumulate || w > 0, bias);
        if (sink)
            sink->take(sink->self, in * out, out, bias);
    }
    if (job.single && sink->successor && (!split || threads == 1)) {
        dense_begin_successor(layer, &waiting[0], sink);
        return;
    }
    rt_device_split(device, blocks, split ? 1 : blocks, dense_weight_blocks, &job);
}

const struct rt_layer_type rt_layer_dense = {
    .name = "dense",
    .help = "every output is a weighted sum of all inputs",
    .options = dense_options,
    .option_count = sizeof dense_options / sizeof *dense_options,
    .main_option = "units",
    .settings_bytes = sizeof(struct dense_settings),
    .setup = dense_setup,
    .init = dense_init,
    .prepare = dense_prepare,
    .forward = dense_forward,
    .backward_input = dense_backward_input,
    .merge_weights = dense_merge_weights,
};
