/* Any bytes as a settle. */
#include "message_check.h"

RT_FUZZ_BODY(settle, rt_settle, rt_settle_deinit(&body))
