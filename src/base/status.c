/* Error messages. One that is too long is cut visibly. */
#include "base/status.h"

#include "base/sentence.h"
#include <stdio.h>
#include <string.h>

rt_status rt_vfail(struct rt_error *err, rt_status status, const char *format, va_list args) {
    if (err) {
        err->status = status;
        rt_vsentence(err->text, sizeof err->text, format, args);
    }
    return status;
}

rt_status rt_fail(struct rt_error *err, rt_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    rt_vfail(err, status, format, args);
    va_end(args);
    return status;
}

rt_status rt_fail_prefix(struct rt_error *err, rt_status status, const char *format, ...) {
    if (err) {
        enum { LONGEST_PATH = 4200, MOST = sizeof err->text / 2 };
        char sentence[sizeof err->text], prefix[LONGEST_PATH];
        memcpy(sentence, err->text, sizeof sentence);
        va_list args;
        va_start(args, format);
        vsnprintf(prefix, sizeof prefix, format, args);
        va_end(args);
        /* The end of a long path, with the line, says more than its beginning; and the message needs room. */
        const size_t length = strlen(prefix);
        const char *from = length > MOST ? prefix + length - MOST : prefix;
        while (((unsigned char)*from & 0xc0) == 0x80)
            from++;
        rt_fail(err, status, "%s%s: %s", from > prefix ? "..." : "", from, sentence);
    }
    return status;
}

rt_status rt_fail_more(struct rt_error *err, rt_status status, const char *format, ...) {
    if (err) {
        char sentence[sizeof err->text], more[sizeof err->text];
        memcpy(sentence, err->text, sizeof sentence);
        va_list args;
        va_start(args, format);
        vsnprintf(more, sizeof more, format, args);
        va_end(args);
        rt_fail(err, status, "%s%s", sentence, more);
    }
    return status;
}
