#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rt_status rt_fail(struct rt_error *err, rt_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

rt_status rt_fail_prefix(struct rt_error *err, rt_status status, const char *format, ...) {
    if (err) {
        char tail[sizeof err->text];
        memcpy(tail, err->text, sizeof tail);
        va_list args;
        va_start(args, format);
        int used = vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t room = used >= 0 && (size_t)used < sizeof err->text ? sizeof err->text - (size_t)used : 0;
        if (room > 3) /* a tail that is too long is cut */
            snprintf(err->text + used, room, ": %.*s", (int)(room - 3), tail);
        err->status = status;
    }
    return status;
}
