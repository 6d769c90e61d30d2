/* What a classifier takes for what. */
#ifndef RT_CLI_CONFUSION_H
#define RT_CLI_CONFUSION_H

#include "run/run.h"
#include <stdio.h>

/* Per class: how many examples, how many of them were recognised, and what the others were most often taken
 * for. With many classes only those that do worst. Nothing for models that are no classifiers. */
void rt_confusion_print(FILE *out, const struct rt_evaluation *evaluation);

#endif
