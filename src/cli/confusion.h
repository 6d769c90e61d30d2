/* The confusions of a classifier. */
#ifndef RT_CLI_CONFUSION_H
#define RT_CLI_CONFUSION_H

#include "run/run.h"
#include <stdio.h>

/* Per class: how many examples, how many of them were recognised, and which class the others were most often
 * taken for. With many classes only the worst. Prints nothing for models that are not classifiers. */
void rt_confusion_print(FILE *out, const struct rt_evaluation *evaluation);

#endif
