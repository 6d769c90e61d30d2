/* Any bytes as a hello. */
#include "message_check.h"

RT_FUZZ_BODY(hello, rt_hello, (void)0)
