from django.urls import path

from catalog.api import (
    compare,
    credentials,
    definitions,
    endpoints,
    findings,
    runs,
    searches,
    translations,
    vendor_requests,
    vendors,
    versions,
    word_groups,
)
from catalog.second_look import api as second_look

urlpatterns = [
    path("searches/unmet/", searches.UnmetNeedList.as_view(), name="api-unmet-need-list"),
    path("search/word-groups/", word_groups.WordGroupList.as_view(), name="api-word-group-list"),
    path("search/word-groups/<int:pk>/", word_groups.WordGroupDetail.as_view(), name="api-word-group"),
    path("translations/", translations.TranslationList.as_view(), name="api-translation-list"),
    path("translations/file/", translations.TranslationFile.as_view(), name="api-translation-file"),
    path("translations/import/", translations.TranslationImport.as_view(), name="api-translation-import"),
    path(
        "tools/<int:pk>/translations/<str:language>/",
        translations.ToolTranslationList.as_view(),
        name="api-tool-translation-list",
    ),
    path(
        "tools/<int:pk>/translations/<str:language>/<slug:digest>/",
        translations.ToolTranslation.as_view(),
        name="api-tool-translation",
    ),
    path("tools/compare/", compare.ToolCompare.as_view(), name="api-tool-compare"),
    path("vendors/", vendors.VendorList.as_view(), name="api-vendor-list"),
    path("vendors/<slug:slug>/", vendors.VendorDetail.as_view(), name="api-vendor"),
    path("vendor-requests/", vendor_requests.VendorRequestList.as_view(), name="api-vendor-request-list"),
    path(
        "vendor-requests/preview/",
        vendor_requests.VendorRequestPreview.as_view(),
        name="api-vendor-request-preview",
    ),
    path(
        "vendor-requests/<int:pk>/", vendor_requests.VendorRequestDetail.as_view(), name="api-vendor-request"
    ),
    path(
        "vendor-requests/<int:pk>/decline/",
        vendor_requests.VendorRequestDecline.as_view(),
        name="api-vendor-request-decline",
    ),
    path("endpoints/", endpoints.EndpointList.as_view(), name="api-endpoint-list"),
    path("endpoints/preview/", endpoints.EndpointPreview.as_view(), name="api-endpoint-preview"),
    path("endpoints/<int:pk>/", endpoints.EndpointDetail.as_view(), name="api-endpoint"),
    path("endpoints/<int:pk>/enumerate/", endpoints.EndpointEnumerate.as_view(), name="api-enumerate"),
    path(
        "endpoints/<int:pk>/second-look/",
        second_look.EndpointSecondLook.as_view(),
        name="api-second-look",
    ),
    path("runs/", runs.RunList.as_view(), name="api-run-list"),
    path("runs/<int:pk>/", runs.RunDetail.as_view(), name="api-run"),
    path("runs/<int:pk>/confirm/", runs.RunConfirm.as_view(), name="api-run-confirm"),
    path("runs/<int:pk>/reply/", runs.RunReply.as_view(), name="api-run-reply"),
    path("tools/<int:pk>/versions/", versions.VersionList.as_view(), name="api-version-list"),
    path("tools/<int:pk>/versions/<int:ordinal>/", versions.VersionDetail.as_view(), name="api-version"),
    path(
        "tools/<int:pk>/versions/v<path:label>/",
        versions.LabelledVersion.as_view(),
        name="api-version-labelled",
    ),
    path("tools/<int:pk>/diff/", versions.VersionDiff.as_view(), name="api-tool-diff"),
    path("credentials/", credentials.CredentialList.as_view(), name="api-credential-list"),
    path("credentials/look-up/", credentials.CredentialLookup.as_view(), name="api-credential-lookup"),
    path("credentials/<uuid:pk>/", credentials.CredentialDetail.as_view(), name="api-credential"),
    path(
        "credentials/<uuid:pk>/sign-in/",
        credentials.CredentialSignIn.as_view(),
        name="api-credential-sign-in",
    ),
    path(
        "credentials/<uuid:pk>/sign-out/",
        credentials.CredentialSignOut.as_view(),
        name="api-credential-sign-out",
    ),
    path("definitions/", definitions.DefinitionList.as_view(), name="api-definition-list"),
    path("definitions/import/", definitions.DefinitionImport.as_view(), name="api-definition-import"),
    path("definitions/<int:pk>/", definitions.DefinitionDetail.as_view(), name="api-definition"),
    path(
        "definitions/<int:pk>/restore/",
        definitions.DefinitionRestore.as_view(),
        name="api-definition-restore",
    ),
    path("findings/", findings.FindingList.as_view(), name="api-finding-list"),
    path("findings/<int:pk>/evidence/", findings.FindingEvidence.as_view(), name="api-finding-evidence"),
    path("findings/<int:pk>/reopen/", findings.FindingReopen.as_view(), name="api-finding-reopen"),
    path("findings/<int:pk>/resolve/", findings.FindingResolve.as_view(), name="api-finding-resolve"),
]
