/* page.h - the skeleton of report.html, stages/report/page.html, as a string.
 *
 * Holds each of {{title}}, {{dygraph.css}}, {{dygraph.js}}, {{content}} and {{data}} once.
 */
#ifndef REMATCH_STAGES_REPORT_PAGE_H
#define REMATCH_STAGES_REPORT_PAGE_H

extern const char page_html[];

#endif
