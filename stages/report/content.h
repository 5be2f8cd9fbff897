/* content.h - the facts of a report in reading order, in the document's markup. */
#ifndef REMATCH_STAGES_REPORT_CONTENT_H
#define REMATCH_STAGES_REPORT_CONTENT_H

#include "stages/report/document.h"
#include "stages/report/report.h"

/* The whole report. */
void content_write(struct document *d, const struct report *r);

/* What stands beside the verdicts: onsets, other errors, other people's gates. */
void content_details(struct document *d, const struct report *r);

/* Its first section: what was found, and what that covers. */
void content_findings(struct document *d, const struct report *r);

#endif
