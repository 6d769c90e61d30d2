/* Labels of arrays and of text files; see labels.h. */
#include "data/labels.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LABELS = 65536 }; /* when the model does not say how many classes there are */

/* ---- names --------------------------------------------------------------------------------------------- */

rt_status rt_names_read(const struct rt_tree *names, const struct rt_data_wish *wish, struct rt_dataset *set,
                        struct rt_error *err) {
    const char *const *known = wish->class_names;
    size_t count = known ? wish->class_count : 0;
    const char **listed = NULL;
    rt_status status = RT_OK;
    if (names) {
        if (names->kind != RT_TREE_LIST || names->count == 0)
            return rt_tree_fail(names, err, "names: must be a list of class names");
        status = rt_alloc(names->count, sizeof *listed, "class names", &listed, err);
        for (size_t i = 0; i < names->count && status == RT_OK; i++) {
            const struct rt_tree *item = names->items[i];
            if (item->kind != RT_TREE_SCALAR || !*item->text)
                status = rt_tree_fail(item, err, "names: a class name must be a text");
            for (size_t j = 0; j < i && status == RT_OK; j++)
                if (strcmp(listed[j], item->text) == 0)
                    status = rt_tree_fail(item, err, "names: '%s' is there twice", item->text);
            listed[i] = item->text;
        }
        bool same = !known || names->count == count;
        for (size_t i = 0; i < names->count && known && same && status == RT_OK; i++)
            same = strcmp(listed[i], known[i]) == 0;
        if (status == RT_OK && !same)
            status = rt_tree_fail(names, err,
                                  "names: differ from the class names of the model or of the training data");
        known = listed;
        count = names->count;
    }
    if (status == RT_OK && known && wish->target == RT_TARGET_CLASSES && wish->outputs &&
        count != wish->outputs)
        status = rt_tree_fail(names, err, "names: %s, but the model has %s", RT_COUNTED(count, "class name"),
                              RT_COUNTED(wish->outputs, "output"));
    if (status == RT_OK && known)
        status = rt_store_names(set->store, known, count, &set->class_names, err);
    if (status == RT_OK && known)
        set->class_count = count;
    free(listed);
    return status;
}

/* A whole number that an int32_t holds. */
static bool labels_whole(double number, int32_t *value) {
    if (!(number >= INT32_MIN && number <= INT32_MAX))
        return false;
    *value = (int32_t)number;
    return (double)*value == number;
}

static bool labels_text_whole(const char *text, int32_t *value) {
    double number;
    return rt_parse_real(text, &number) && labels_whole(number, value);
}

int32_t rt_names_find(const struct rt_dataset *set, const char *text) {
    for (size_t i = 0; i < set->class_count; i++)
        if (strcmp(set->class_names[i], text) == 0)
            return (int32_t)i;
    int32_t value;
    return labels_text_whole(text, &value) && value >= 0 && (size_t)value < set->class_count ? value : -1;
}

/* ---- labels in arrays ---------------------------------------------------------------------------------- */

/* Fails with the message; the caller puts the position before it. */
static void labels_fail_range(size_t example, const char *label, size_t classes, struct rt_error *err) {
    rt_fail(
        err, RT_BAD_INPUT,
        "the label of example %zu (counted from 0) is %.60s, but the model has %s: labels go from 0 to %zu",
        example, label, RT_COUNTED(classes, "output"), classes - 1);
}

static rt_status labels_read_classes(const struct rt_array *labels, const char *name,
                                     const struct rt_data_wish *wish, struct rt_dataset *set,
                                     struct rt_error *err) {
    if (rt_shape_size(&labels->shape) != 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %s for each example; a class label is one", name,
                       RT_COUNTED(rt_shape_size(&labels->shape), "number"));
    int32_t *classes, most = 0;
    rt_status status =
        rt_store_alloc(set->store, labels->count, sizeof *classes, "the labels", &classes, err);
    if (status != RT_OK)
        return status;
    size_t limit = wish->outputs ? wish->outputs : MOST_LABELS;
    for (size_t i = 0; i < labels->count; i++) {
        double number = rt_array_number(labels->type, labels->data, i);
        if (!labels_whole(number, &classes[i]) || classes[i] < 0 || (size_t)classes[i] >= limit) {
            char text[32];
            snprintf(text, sizeof text, "%.9g", number);
            labels_fail_range(i, text, limit, err);
            return rt_fail_prefix(err, RT_BAD_INPUT, "%s", name);
        }
        most = classes[i] > most ? classes[i] : most;
    }
    set->classes = classes;
    if (!set->class_names)
        set->class_count = wish->outputs ? wish->outputs : (size_t)most + 1;
    return RT_OK;
}

static rt_status labels_read_values(const struct rt_array *labels, const char *name,
                                    const struct rt_data_wish *wish, struct rt_dataset *set,
                                    struct rt_error *err) {
    size_t width = rt_shape_size(&labels->shape);
    if (wish->outputs && width != wish->outputs)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %s for each example, but the model has %s", name,
                       RT_COUNTED(width, "target value"), RT_COUNTED(wish->outputs, "output"));
    for (size_t i = 0; i < labels->count * width; i++) {
        double number = rt_array_number(labels->type, labels->data, i);
        if (!isfinite((float)number))
            return rt_fail(
                err, RT_BAD_INPUT,
                "%s: target %zu of example %zu (both counted from 0) is %g: it must be a finite float", name,
                i % width, i / width, number);
    }
    set->value_width = width;
    if (labels->type == RT_DATA_F32 && (uintptr_t)labels->data % _Alignof(float) == 0) {
        set->values = labels->data;
        return RT_OK;
    }
    float *values;
    rt_status status =
        rt_store_alloc(set->store, labels->count, width * sizeof *values, "the targets", &values, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < labels->count * width; i++)
        values[i] = (float)rt_array_number(labels->type, labels->data, i);
    set->values = values;
    return RT_OK;
}

rt_status rt_labels_read(const struct rt_array *labels, const char *name, const struct rt_data_wish *wish,
                         struct rt_dataset *set, struct rt_error *err) {
    if (labels->count != set->count)
        return rt_fail(err, RT_BAD_INPUT, "%s has %s, but %s has labels for %zu", set->name,
                       RT_COUNTED(set->count, "example"), name, labels->count);
    return wish->target == RT_TARGET_CLASSES ? labels_read_classes(labels, name, wish, set, err)
                                             : labels_read_values(labels, name, wish, set, err);
}

/* ---- labels in text ------------------------------------------------------------------------------------ */

struct rt_label {
    char *text;
    int32_t number; /* as given out */
    int32_t class;  /* once it is known */
    uint64_t line;
    size_t example; /* where it was first seen */
};

void rt_book_free(struct rt_label_book *book) {
    for (size_t i = 0; i < book->count; i++)
        free(book->labels[i].text);
    free(book->labels);
    *book = (struct rt_label_book){0};
}

/* The index of text in the book, or where it is to be inserted. */
static size_t labels_search(const struct rt_label_book *book, const char *text, bool *found) {
    size_t low = 0, high = book->count;
    *found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(book->labels[middle].text, text);
        *found = order == 0;
        if (*found)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool rt_book_has(const struct rt_label_book *book, const char *text) {
    bool found;
    labels_search(book, text, &found);
    return found;
}

static rt_status labels_fail_unknown(const struct rt_dataset *set, const char *text,
                                     const struct rt_text_position *position, struct rt_error *err) {
    char list[300];
    rt_listed(set->class_names, set->class_count, list, sizeof list);
    return rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ":%zu: '%.60s' is not one of the class names (%s)",
                   position->file, position->line, position->field, text, list);
}

/* Whether all labels are whole numbers. *outside: of those out of range, the one on the first line; or NULL.
 */
static bool labels_all_whole(const struct rt_label_book *book, size_t limit,
                             const struct rt_label **outside) {
    *outside = NULL;
    for (size_t i = 0; i < book->count; i++) {
        int32_t value;
        if (!labels_text_whole(book->labels[i].text, &value))
            return false;
        if ((value < 0 || (size_t)value >= limit) && (!*outside || book->labels[i].line < (*outside)->line))
            *outside = &book->labels[i];
    }
    return true;
}

static rt_status labels_fail_label(const char *file, const struct rt_label *label, size_t limit,
                                   struct rt_error *err) {
    labels_fail_range(label->example, label->text, limit, err);
    return rt_fail_prefix(err, RT_BAD_INPUT, "%s:%" PRIu64, file, label->line);
}

/* There are more different labels than classes: finds the best reason to report. Whole numbers may have
 * several spellings (1 and 1.0), so these are counted generously. */
static rt_status labels_check_full(const struct rt_label_book *book, const struct rt_text_position *position,
                                   const struct rt_data_wish *wish, struct rt_error *err) {
    size_t limit = wish->outputs ? wish->outputs : MOST_LABELS;
    const struct rt_label *outside;
    bool numbers = labels_all_whole(book, limit, &outside);
    if (numbers && outside)
        return labels_fail_label(position->file, outside, limit, err);
    if (numbers && book->count <= 4 * limit)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "%s:%" PRIu64 ":%zu: here is the %s different label, but the model has %s", position->file,
                   position->line, position->field, RT_ORDINAL(book->count), RT_COUNTED(limit, "output"));
}

static rt_status labels_insert(struct rt_label_book *book, size_t at, const struct rt_label *label,
                               struct rt_error *err) {
    if (book->count == book->room) {
        size_t room = book->room ? book->room * 2 : 16;
        struct rt_label *labels = realloc(book->labels, room * sizeof *labels);
        if (!labels)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for the labels");
        book->labels = labels;
        book->room = room;
    }
    memmove(book->labels + at + 1, book->labels + at, (book->count - at) * sizeof *book->labels);
    book->labels[at] = *label;
    book->count++;
    return RT_OK;
}

rt_status rt_book_number(struct rt_label_book *book, const char *text,
                         const struct rt_text_position *position, const struct rt_data_wish *wish,
                         const struct rt_dataset *set, int32_t *number, struct rt_error *err) {
    bool found;
    size_t at = labels_search(book, text, &found);
    if (found) {
        *number = book->labels[at].number;
        return RT_OK;
    }
    struct rt_label label = {
        .number = (int32_t)book->count, .line = position->line, .example = position->example};
    if (set->class_names) {
        label.number = rt_names_find(set, text);
        if (label.number < 0)
            return labels_fail_unknown(set, text, position, err);
        /* A number has many spellings; the book stores only a few of them. */
        if (book->count >= 4 * set->class_count) {
            *number = label.number;
            return RT_OK;
        }
    }
    label.text = strdup(text);
    if (!label.text)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the labels");
    rt_status status = labels_insert(book, at, &label, err);
    if (status != RT_OK) {
        free(label.text);
        return status;
    }
    *number = label.number;
    size_t limit = wish->outputs ? wish->outputs : MOST_LABELS;
    return book->count > limit && !set->class_names ? labels_check_full(book, position, wish, err) : RT_OK;
}

/* Assigns a class to each label, and names to the set when the labels are texts. */
static rt_status labels_number_classes(struct rt_label_book *book, const char *file,
                                       const struct rt_data_wish *wish, struct rt_dataset *set,
                                       struct rt_error *err) {
    size_t limit = wish->outputs ? wish->outputs : MOST_LABELS;
    const struct rt_label *outside;
    bool numbers = labels_all_whole(book, limit, &outside);
    if (numbers && outside)
        return labels_fail_label(file, outside, limit, err);
    if (!numbers && wish->outputs && book->count != wish->outputs)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: has %s, but the model has %s; the option `names` can list all classes", file,
                       RT_COUNTED(book->count, "different label"), RT_COUNTED(wish->outputs, "output"));
    int32_t most = 0;
    for (size_t i = 0; i < book->count; i++) {
        book->labels[i].class = (int32_t)i;
        if (numbers)
            labels_text_whole(book->labels[i].text, &book->labels[i].class);
        most = book->labels[i].class > most ? book->labels[i].class : most;
    }
    set->class_count = wish->outputs ? wish->outputs : (size_t)most + 1;
    if (numbers)
        return RT_OK;
    const char **names;
    rt_status status = rt_alloc(book->count, sizeof *names, "class names", &names, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < book->count; i++)
        names[i] = book->labels[i].text;
    status = rt_store_names(set->store, names, book->count, &set->class_names, err);
    free(names);
    return status;
}

rt_status rt_book_finish(struct rt_label_book *book, const char *file, const struct rt_data_wish *wish,
                         int32_t *numbers, size_t count, struct rt_dataset *set, struct rt_error *err) {
    set->classes = numbers;
    if (set->class_names)
        return RT_OK;
    int32_t *class_of;
    rt_status status = rt_alloc(book->count, sizeof *class_of, "the labels", &class_of, err);
    if (status != RT_OK)
        return status;
    status = labels_number_classes(book, file, wish, set, err);
    for (size_t i = 0; i < book->count && status == RT_OK; i++)
        class_of[book->labels[i].number] = book->labels[i].class;
    for (size_t i = 0; i < count && status == RT_OK; i++)
        numbers[i] = class_of[numbers[i]];
    free(class_of);
    return status;
}
