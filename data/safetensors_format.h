/* safetensors_format.h - what writer and reader of safetensors agree on beyond the format; not for other files. */
#ifndef REMATCH_DATA_SAFETENSORS_FORMAT_H
#define REMATCH_DATA_SAFETENSORS_FORMAT_H

/* In __metadata__, beside the seal: says that there is one. */
#define SAFETENSORS_MARK "rematch"
#define SAFETENSORS_MARKED "sealed"

#endif
