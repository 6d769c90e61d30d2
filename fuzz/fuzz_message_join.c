/* Any bytes as a join. */
#include "message_check.h"

RT_FUZZ_BODY(join, rt_join, (void)0)
