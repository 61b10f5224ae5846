"""OXP, the Open Execution Protocol 1.0 (draft), in both of its wire forms.

https://github.com/OpenExecProtocol/Specification
"""
