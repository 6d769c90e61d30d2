/* Any bytes as an assign. */
#include "message_check.h"

RT_FUZZ_BODY(assign, rt_assign, rt_assign_deinit(&body))
