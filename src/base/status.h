/* Failure with a message attached. See rt_status and rt_error in the public header. */
#ifndef RT_BASE_STATUS_H
#define RT_BASE_STATUS_H

#include <ringtmp/ringtmp.h>
#include <stdarg.h>
#include <stdbool.h>

#if defined(__GNUC__)
#define RT_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define RT_PRINTF(format_index, first)
#endif

/* Writes the message into err (which may be NULL) and returns status, so that a function can end with return
 * rt_fail(err, RT_BAD_INPUT, "%s: ...", path). The function that detects an error writes the message; callers
 * that only pass it on do not change it. */
rt_status rt_fail(struct rt_error *err, rt_status status, const char *format, ...) RT_PRINTF(3, 4);
rt_status rt_vfail(struct rt_error *err, rt_status status, const char *format, va_list args) RT_PRINTF(3, 0);

/* Puts "prefix: " before the message. */
rt_status rt_fail_prefix(struct rt_error *err, rt_status status, const char *format, ...) RT_PRINTF(3, 4);

/* Appends to the message: what to do about it. */
rt_status rt_fail_more(struct rt_error *err, rt_status status, const char *format, ...) RT_PRINTF(3, 4);

/* The two idioms of error paths. RT_TRY: whatever fails ends the function, with the sentence that is in err:
 *
 *     RT_TRY(rt_file_open(path, &file, err));
 *
 * Only where nothing has been taken that must be given back. A constructor takes its object, fills it with a
 * function that may return early at any point, and ends with RT_FINISH_CREATE: a failure of that function
 * destroys the object, which must be possible whatever it has by then.
 *
 *     RT_TRY(rt_alloc(1, sizeof *made, "a thing", &made, err));
 *     RT_FINISH_CREATE(thing_init(made, settings, err), made, rt_thing_destroy, thing);
 */
#define RT_TRY(expression)                                                                                   \
    do {                                                                                                     \
        const rt_status rt_try_status_ = (expression);                                                       \
        if (rt_try_status_ != RT_OK)                                                                         \
            return rt_try_status_;                                                                           \
    } while (0)

#define RT_FINISH_CREATE(expression, made, destroy, out)                                                     \
    do {                                                                                                     \
        const rt_status rt_try_status_ = (expression);                                                       \
        if (rt_try_status_ != RT_OK)                                                                         \
            destroy(made);                                                                                   \
        else                                                                                                 \
            *(out) = (made);                                                                                 \
        return rt_try_status_;                                                                               \
    } while (0)

#endif
