/* Any bytes as a welcome. */
#include "message_check.h"

RT_FUZZ_BODY(welcome, rt_welcome, (void)0)
