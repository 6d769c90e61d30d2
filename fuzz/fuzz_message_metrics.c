/* Any bytes as metrics. */
#include "message_check.h"

RT_FUZZ_BODY(metrics, rt_metrics, rt_metrics_deinit(&body))
