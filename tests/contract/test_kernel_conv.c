/*
 * Convolutions of every kind of shape: the exact kernels read pixels in place, whole vectors at a time, so
 * that their mistakes would sit at edges. Here the edges of panels, tiles, blocks of k, bands of rows, and of
 * the image itself meet every stride, padding and number of groups. Every table must give the reference's
 * bits, from scratch memory of just the size that it asked for.
 */
#include "support/kernel_check.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct rt_kernels *const ref = &rt_kernels_reference;

/* What a shape is made of; the output follows. */
struct shape {
    size_t channels, height, width, filters, kernel_h, kernel_w, stride, pad, groups;
};

static bool fits(const struct shape *s) {
    return s->height + 2 * s->pad >= s->kernel_h && s->width + 2 * s->pad >= s->kernel_w;
}

static struct rt_conv convolution(const struct shape *s) {
    return (struct rt_conv){
        .channels = s->channels,
        .height = s->height,
        .width = s->width,
        .filters = s->filters,
        .kernel_h = s->kernel_h,
        .kernel_w = s->kernel_w,
        .stride = s->stride,
        .pad = s->pad,
        .groups = s->groups,
        .out_height = (s->height + 2 * s->pad - s->kernel_h) / s->stride + 1,
        .out_width = (s->width + 2 * s->pad - s->kernel_w) / s->stride + 1,
    };
}

/* Scratch of just this size, unlike kc_scratch: a sanitizer sees a read one float behind it. */
static void *tight_scratch(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0) {
        fprintf(stderr, "no memory left for a kernel check\n");
        exit(1);
    }
    memset(memory, 0xff, bytes);
    return memory;
}

/* All three parts of a convolution by all tables, two images, with and without prepared weights. */
static void check(const struct shape *shape) {
    enum { IMAGES = 2 };
    const struct rt_kernels *tables[8];
    const struct rt_conv conv = convolution(shape);
    const size_t in = IMAGES * kc_conv_in(&conv), out = IMAGES * kc_conv_out(&conv);
    const size_t count = rt_kernels_exact_all(tables, COUNT(tables)), weights = kc_conv_weight_count(&conv);
    const float *x = kc_numbers(in, 1), *dy = kc_numbers(out, 2), *w = kc_numbers(weights, 3);
    const float *bias = kc_numbers(conv.filters, 4);
    struct kc_pair y = kc_pair_create(out, NULL), dx = kc_pair_create(in, NULL);
    struct kc_pair dw = kc_pair_create(weights, NULL), db = kc_pair_create(conv.filters, NULL);
    ref->conv_forward(&conv, IMAGES, x, w, NULL, bias, RT_ACT_RELU, 0, y.want, NULL);
    ref->conv_input(&conv, IMAGES, dy, w, NULL, dx.want, NULL);
    ref->conv_weights(&conv, IMAGES, 0, conv.filters, x, dy, false, dw.want, db.want, NULL);
    REQUIRE(count > 0);
    for (size_t t = 0; t < count; t++) {
        const struct rt_kernels *k = tables[t];
        char text[160];
        snprintf(text, sizeof text, "%s %zux%zux%zu filters %zu kernel %zux%zu stride %zu pad %zu groups %zu",
                 k->name, conv.channels, conv.height, conv.width, conv.filters, conv.kernel_h, conv.kernel_w,
                 conv.stride, conv.pad, conv.groups);
        void *scratch = tight_scratch(k->conv_scratch(&conv));
        float *forward = kc_scratch(k->conv_prepared(&conv, false) * sizeof *forward);
        float *input = kc_scratch(k->conv_prepared(&conv, true) * sizeof *input);
        k->conv_prepare(&conv, w, false, forward);
        k->conv_prepare(&conv, w, true, input);
        for (int prepared = 0; prepared < 2; prepared++) {
            k->conv_forward(&conv, IMAGES, x, w, prepared ? forward : NULL, bias, RT_ACT_RELU, 0, y.got,
                            scratch);
            kc_pair_compare(&y, "%s, forward", text);
            k->conv_input(&conv, IMAGES, dy, w, prepared ? input : NULL, dx.got, scratch);
            kc_pair_compare(&dx, "%s, input gradient", text);
        }
        k->conv_weights(&conv, IMAGES, 0, conv.filters, x, dy, false, dw.got, db.got, scratch);
        kc_pair_compare(&dw, "%s, weight gradient", text);
        kc_pair_compare(&db, "%s, bias gradient", text);
        free(scratch);
    }
    kc_release();
}

/* Panels are 8, 16 or 32 pixels wide: fewer pixels than one panel, whole panels, and every tail. */
TEST(every_count_of_pixels) {
    for (size_t pixels = 1; pixels <= 70; pixels++) {
        check(&(struct shape){2, 1, pixels, 3, 1, 1, 1, 0, 1});
        check(&(struct shape){1, 1, pixels, 2, 1, 3, 1, 1, 1});
        check(&(struct shape){2, pixels, 1, 2, 3, 1, 1, 1, 1});
    }
    for (size_t side = 1; side <= 20; side++)
        check(&(struct shape){3, side, side, 4, 3, 3, 1, 1, 1});
}

/* Tiles have 1 to 14 rows, which are filters, or channels for the input gradient. Weight gradients take
 * another way where there are as many channels as lanes: 4, 8 or 16. */
TEST(every_height_of_tiles) {
    for (size_t rows = 1; rows <= 30; rows++) {
        check(&(struct shape){2, 5, 7, rows, 3, 3, 1, 1, 1});
        check(&(struct shape){rows, 5, 7, 2, 3, 3, 1, 1, 1});
        check(&(struct shape){rows, 6, 9, 3, 3, 2, 2, 1, 1});
    }
}

TEST(every_stride_padding_and_group) {
    static const size_t kernels[][2] = {{1, 1}, {2, 2}, {3, 3}, {1, 4}, {5, 2}, {4, 5}};
    static const size_t images[][2] = {{1, 1}, {2, 3}, {5, 4}, {7, 19}};
    for (size_t kernel = 0; kernel < COUNT(kernels); kernel++)
        for (size_t image = 0; image < COUNT(images); image++)
            for (size_t stride = 1; stride <= 4; stride++)
                for (size_t pad = 0; pad <= 3; pad++)
                    for (size_t groups = 1; groups <= 4; groups *= 2) {
                        struct shape shape = {.channels = 4,
                                              .height = images[image][0],
                                              .width = images[image][1],
                                              .filters = 8,
                                              .kernel_h = kernels[kernel][0],
                                              .kernel_w = kernels[kernel][1],
                                              .stride = stride,
                                              .pad = pad,
                                              .groups = groups};
                        if (fits(&shape))
                            check(&shape);
                    }
}

/* A sum of more than 512 terms is cut into blocks, in the middle of a channel and of a kernel's row too. */
TEST(sums_in_several_blocks) {
    static const size_t channels[] = {56, 57, 58, 113, 114, 115};
    for (size_t i = 0; i < COUNT(channels); i++)
        for (size_t stride = 1; stride <= 2; stride++) {
            check(&(struct shape){channels[i], 3, 5, 3, 3, 3, stride, 1, 1});
            check(&(struct shape){3, 4, 3, channels[i], 3, 3, stride, 1, 1});
        }
    check(&(struct shape){2, 20, 21, 3, 19, 17, 1, 2, 1});
    check(&(struct shape){513, 2, 2, 2, 1, 1, 1, 0, 1});
    check(&(struct shape){64, 4, 3, 64, 3, 3, 1, 1, 2});
}

/* Images too large for one band of strips, or one chunk of patches: the last may be shorter. */
TEST(images_in_several_bands) {
    for (size_t stride = 1; stride <= 3; stride++)
        for (size_t height = 7; height <= 9; height++) {
            check(&(struct shape){2, height, 1500, 2, 3, 5, stride, 1, 1});
            check(&(struct shape){17, height, 333, 2, 3, 5, stride, 2, 1});
        }
    check(&(struct shape){1, 4, 30000, 1, 2, 3, 1, 0, 1}); /* one row alone is too large */
    check(&(struct shape){24, 41, 43, 3, 3, 3, 1, 1, 1});
}

TEST_MAIN()
