/* Any bytes as a joined. */
#include "message_check.h"

RT_FUZZ_BODY(joined, rt_joined, (void)0)
