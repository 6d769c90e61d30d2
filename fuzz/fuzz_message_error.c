/* Any bytes as an error. */
#include "message_check.h"

RT_FUZZ_BODY(error, rt_error_message, (void)0)
