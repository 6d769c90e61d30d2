/* Any bytes as a profile. */
#include "message_check.h"

RT_FUZZ_BODY(profile, rt_profile, rt_profile_deinit(&body))
