/* Any bytes as a profiled. */
#include "message_check.h"

RT_FUZZ_BODY(profiled, rt_profiled, rt_profiled_deinit(&body))
