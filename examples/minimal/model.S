// The model's bytes, aligned so that they are used in place. MINIMAL_MODEL is the file, given by the build.
        .section .model, "a"
        .balign 64
        .global minimal_model
minimal_model:
        .incbin MINIMAL_MODEL
        .global minimal_model_end
minimal_model_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
