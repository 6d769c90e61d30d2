/* Any bytes as a ready. */
#include "message_check.h"

RT_FUZZ_BODY(ready, rt_ready, (void)0)
